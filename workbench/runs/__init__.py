"""The rows of every run: their schema, the store that keeps them, and their export."""
