"""Inference Workbench: what a box could do with a language model, what it does, and where the difference went."""

import os

__version__ = "0.1.0"

# Read when transformers is imported, wherever that comes first: no hub is asked, and no progress bar is drawn over a
# table or a screen.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
