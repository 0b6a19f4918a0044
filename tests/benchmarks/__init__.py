"""Benchmarks: scripts that print a figure beside its bar."""
