"""Inference Workbench: what a box could do with a language model, what it does, and where the difference went."""

__version__ = "0.1.0"
