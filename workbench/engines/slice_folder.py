"""A folder with only those files of a model that a slice of it needs, as links to them."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

INDEX = "model.safetensors.index.json"
LAYER = re.compile(r"\.(?:layers|h|blocks)\.(\d+)\.")


@contextmanager
def needed_files(folder: Path, layers: int) -> Iterator[Path]:
    """The folder itself where the weights are in one file; else one that links to the shards of its first layers.

    Shards of later layers may be missing: a slice of a model can be downloaded alone.
    """
    index = folder / INDEX
    if not index.is_file():
        yield folder
        return
    stored = json.loads(index.read_text(encoding="utf-8"))
    needed = {name: shard for name, shard in stored["weight_map"].items() if is_needed(name, layers)}
    with TemporaryDirectory() as held:
        links = Path(held)
        for path in folder.iterdir():
            if path.is_file() and path.suffix == ".json" and path != index:
                (links / path.name).symlink_to(path.absolute())
        for shard in set(needed.values()):
            (links / shard).symlink_to((folder / shard).absolute())
        (links / INDEX).write_text(json.dumps({**stored, "weight_map": needed}), encoding="utf-8")
        yield links


def is_needed(tensor: str, layers: int) -> bool:
    """Whether a tensor is of the first `layers` layers, or of none."""
    found = LAYER.search(tensor)
    return found is None or int(found[1]) < layers
