"""What a box could do: pure arithmetic from a model's reads and a box's rates, one module a subject."""
