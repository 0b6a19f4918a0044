"""From what a person types to a model: a folder, a .gguf file or a preset's name; and models found on disk."""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from workbench.errors import ModelError
from workbench.models.folder import read_folder, read_settings_file
from workbench.models.gguf import part_names
from workbench.models.gguf_model import read_gguf_model
from workbench.models.model import Model
from workbench.models.presets import preset_model
from workbench.paths import expanded


def resolve(name: str) -> Model:
    """The model named: an existing path wins over a preset.

    Raises ModelError for a path where nothing is, an unknown preset (the nearest known name is offered), and
    whatever reading the folder or file finds wrong.
    """
    name = name.strip()
    if not name:
        raise ModelError("No model is named. Give a folder, a .gguf file or a preset's name.")
    if not _is_text(name):
        raise ModelError(f"The name {name!r} holds bytes that are no text, so no row could carry it. Rename the model.")
    path = expanded(Path(name))
    try:
        if path.is_dir():
            return read_folder(path)
        if path.is_file():
            return _read_file(path)
        if path.exists():
            raise ModelError(f"{path} is neither a folder nor a file. Name a model folder or a .gguf file.")
    except (OSError, ValueError) as error:
        raise ModelError(f"{name!r} can't be looked up as a path: {error}.") from error
    if name.lower().endswith(".gguf"):
        raise ModelError(f"There is no file {path}. Check the path.")
    if os.sep in name or (os.altsep and os.altsep in name) or name.startswith(("~", ".")):
        hint = ""
        if name.count("/") == 1 and not name.startswith(("~", ".", "/")):
            hint = (
                " A model of a hub has to be downloaded first: name the folder it is in. "
                "The workbench downloads nothing."
            )
        raise ModelError(f"There is no folder or file {path}.{hint or ' Check the path.'}")
    return preset_model(name)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_file(path: Path) -> Model:
    if path.suffix.lower() == ".safetensors" or path.name.endswith(".safetensors.index.json"):
        raise ModelError(f"{path} is one file of a model. Name the folder it is in: {path.parent}.")
    if path.suffix.lower() in (".bin", ".pt", ".pth"):
        raise ModelError(
            f"{path} may be pickled weights, which can run code when opened, so it never is. "
            "Name a folder with safetensors, or a .gguf file."
        )
    if path.suffix.lower() == ".json":
        return read_settings_file(path)
    return read_gguf_model(path)


def usual_folders() -> tuple[Path, ...]:
    """Where models usually lie: here, ~/models, and the caches of Hugging Face, LM Studio and llama.cpp."""
    home = Path.home()
    hub = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    hugging_face = Path(os.environ.get("HF_HOME", home / ".cache" / "huggingface"))
    caches = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return (
        Path.cwd(),
        home / "models",
        Path(hub) if hub else hugging_face / "hub",
        home / ".lmstudio" / "models",
        home / ".cache" / "lm-studio" / "models",
        Path(os.environ.get("LLAMA_CACHE", caches / "llama.cpp")),
    )


def find_models(
    folders: Iterable[Path] | None = None, *, depth: int = 4, most: int = 200, seconds: float = 0.5
) -> list[Path]:
    """Folders with config.json and safetensors, and .gguf files, found without opening any.

    Of a split file only the first part is given, of a projector none. Stops at `depth` folders down, `most`
    found, or after `seconds`.
    """
    deadline = time.monotonic() + seconds
    found: dict[Path, None] = {}
    for folder in usual_folders() if folders is None else folders:
        for path in _models_in(folder, depth, deadline):
            found.setdefault(path)
            if len(found) >= most:
                return list(found)
    return list(found)


def _models_in(folder: Path, depth: int, deadline: float) -> Iterator[Path]:
    """Models in one folder and those below it, shallow ones first."""
    waiting = [(folder, depth)]
    for here, left in waiting:
        if time.monotonic() > deadline:
            return
        try:
            with os.scandir(here) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            continue
        names = {entry.name for entry in entries}
        if "config.json" in names and any(name.endswith(".safetensors") for name in names):
            yield here
        for entry in entries:
            if entry.name.lower().endswith(".gguf") and _is_file(entry) and _names_a_model(here / entry.name):
                yield here / entry.name
            elif left > 0 and not entry.name.startswith(".") and _is_folder(entry):
                waiting.append((here / entry.name, left - 1))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False) and entry.name not in ("node_modules", "__pycache__", "blobs")
    except OSError:
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _names_a_model(path: Path) -> bool:
    if "mmproj" in path.name.lower():
        return False
    parts = part_names(path)
    return parts is None or parts[0] == path
