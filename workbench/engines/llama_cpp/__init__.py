"""llama.cpp: its server started here, and its benchmark programs."""
