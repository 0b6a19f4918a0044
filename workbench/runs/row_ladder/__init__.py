"""The ladder of one pass as rows alone show it: what lines through contexts, batches, prompts and threads leave over.

No pass is taken apart for it, so its rungs are coarser than those of a pass that is: rates say what they can, and a
line through the points what every pass costs beyond its floor, and what grows with the context, the sequences or the
prompt beyond theirs.
"""
