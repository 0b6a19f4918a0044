"""The panes: one for each key from 1 to 6."""
