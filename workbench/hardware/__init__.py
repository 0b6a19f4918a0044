"""The box: what it is, what it gives right now, and the rates it shows."""
