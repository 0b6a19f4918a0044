"""What runs a model; the one place where torch models are run."""
