"""Element types of GGUF files: names, block sizes and file types, as the gguf package has them."""

import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


@dataclass(frozen=True)
class GgmlType:
    """An element type: `block_elements` values are stored in `block_bytes` bytes."""

    name: str
    block_elements: int
    block_bytes: int


@cache
def _constants() -> ModuleType:
    """The gguf package's table of constants.

    Importing the package itself brings numpy, which takes longer than reading the header of a model; the
    table needs only the standard library, so it is loaded from its own file.
    """
    loaded = sys.modules.get("gguf.constants")
    if loaded is not None:
        return loaded
    package = find_spec("gguf")
    if package is not None and package.submodule_search_locations:
        location = Path(package.submodule_search_locations[0]) / "constants.py"
        spec = spec_from_file_location("workbench_gguf_constants", location)
        if spec is not None and spec.loader is not None and location.is_file():
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return import_module("gguf.constants")


@cache
def ggml_types() -> dict[int, GgmlType]:
    """The known element types by their number in a file."""
    sizes = _constants().GGML_QUANT_SIZES
    return {int(kind): GgmlType(kind.name, elements, size) for kind, (elements, size) in sizes.items()}


@cache
def file_types() -> dict[int, str]:
    """The names of `general.file_type`, such as Q4_K_M."""
    return {int(kind): kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in _constants().LlamaFileType}
