"""What is measured: each experiment is a generator of frozen events."""
