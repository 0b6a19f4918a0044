"""What a model is and what one token of it reads, without loading it and without torch."""
