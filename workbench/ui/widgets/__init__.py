"""What the panes are made of, one widget a module."""
