"""How much the workbench disturbs its own timings."""
