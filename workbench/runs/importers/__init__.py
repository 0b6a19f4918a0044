"""Results that other tools wrote, read into runs and rows of the workbench."""
