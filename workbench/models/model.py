"""What a model is: its tensors in groups by how decoding reads them, its KV cache, its shape."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from workbench.errors import ModelError

DTYPE_BYTES: Mapping[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2}


class ModelKind(StrEnum):
    """The three ways to name a model."""

    FOLDER = "folder"
    GGUF = "gguf"
    PRESET = "preset"


class Read(StrEnum):
    """How one decode step reads a group of tensors."""

    ALL = "all"
    ONE_ROW = "one row"
    ROUTED = "K of N"
    NONE = "none"


@dataclass(frozen=True)
class TensorGroup:
    """Tensors of one purpose: their element types, parameters, stored bytes, and how a step reads them.

    `rows` is the number of rows of a table of which a step reads one.
    """

    name: str
    types: tuple[str, ...]
    parameters: int
    bytes: int
    read: Read
    rows: int = 1


class KvKind(StrEnum):
    """What a layer keeps of the tokens it has seen."""

    FULL = "full"
    SLIDING = "sliding"
    LATENT = "latent"
    RECURRENT = "recurrent"


@dataclass(frozen=True)
class KvLayer:
    """One layer's cache: elements for each token kept, the window if it slides, and any fixed state."""

    kind: KvKind
    elements_per_token: int
    window: int | None = None
    constant_elements: int = 0

    def elements_read(self, t: int) -> int:
        """Elements one step reads with t tokens in the cache."""
        kept = t if self.window is None else min(t, self.window)
        return self.elements_per_token * kept + self.constant_elements


@dataclass(frozen=True)
class AttentionLayer:
    """One layer's attention arithmetic: query heads, dimension of a head, and the window if it slides."""

    heads: int
    head_dim: int
    window: int | None = None


@dataclass(frozen=True)
class Published:
    """The parameter counts that a model's card states, rounded as it states them."""

    parameters: float
    active: float
    source: str


@dataclass(frozen=True)
class Model:
    """A model as read from its files or preset, before anything is loaded.

    `config` is what transformers builds the model from (None for a GGUF, whose header serves);
    `architecture` is the maker's name for the family (qwen3, llama, …); `notes` are sentences a person
    must see, such as reads that are not modelled; `held_in` is the dtype an engine converts the weights to,
    None as they are stored; `slice_of` counts the layers of the model of which this is a slice. Raises ModelError for
    routed experts of which a token uses none, or more than there are.
    """

    name: str
    source: str
    kind: ModelKind
    architecture: str
    quantisation: str
    groups: tuple[TensorGroup, ...]
    kv_layers: tuple[KvLayer, ...]
    attention_layers: tuple[AttentionLayer, ...]
    vocabulary: int
    hidden: int
    context_limit: int | None
    tied_embeddings: bool
    file_bytes: int | None
    path: Path | None = None
    experts: int = 0
    experts_used: int = 0
    config: Mapping[str, Any] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    published: Published | None = None
    held_in: str | None = None
    slice_of: int | None = None

    def __post_init__(self) -> None:
        routed = any(group.read is Read.ROUTED for group in self.groups)
        if routed and not 0 < self.experts_used <= self.experts:
            raise ModelError(
                f"{self.name} has routed experts, and says that a token uses {self.experts_used:,} of "
                f"{self.experts:,}; it must use at least 1 and no more than there are. Check {self.source}."
            )

    @property
    def parameters(self) -> int:
        """All parameters stored."""
        return sum(g.parameters for g in self.groups)

    @property
    def read_parameters(self) -> int:
        """N: parameters one token is multiplied by; the one embedding row it looks up is not among them."""
        return sum(self.read_of(g, g.parameters) for g in self.groups if g.read is not Read.ONE_ROW)

    @property
    def head_parameters(self) -> int:
        """Parameters of the output head, which prefill runs for the last position only."""
        return self.vocabulary * self.hidden

    @property
    def resident_bytes(self) -> int:
        """Bytes all tensors take in memory as they are stored."""
        return sum(g.bytes for g in self.groups)

    @property
    def held_bytes(self) -> int:
        """Bytes of weights held to run: the file's where they stay as stored, those of all tensors otherwise."""
        return self.resident_bytes if self.file_bytes is None or self.held_in is not None else self.file_bytes

    @property
    def read_bytes_per_token(self) -> int:
        """W: bytes of weights one token reads at batch 1."""
        return sum(self.read_of(g, g.bytes) for g in self.groups)

    @property
    def shared_read_bytes(self) -> int:
        """Bytes every token reads whatever the routing: everything but the embedding row and the experts."""
        return sum(g.bytes for g in self.groups if g.read is Read.ALL)

    @property
    def routed_expert_bytes(self) -> int:
        """Bytes of all routed experts together."""
        return sum(g.bytes for g in self.groups if g.read is Read.ROUTED)

    @property
    def embedding_row_bytes(self) -> int:
        """Bytes of the table rows that one token looks up."""
        return sum(self.read_of(g, g.bytes) for g in self.groups if g.read is Read.ONE_ROW)

    @property
    def main_type(self) -> str:
        """The element type that takes most of the bytes a token reads."""
        by_type: dict[str, int] = {}
        for group in self.groups:
            if group.types:
                by_type[group.types[0]] = by_type.get(group.types[0], 0) + self.read_of(group, group.bytes)
        return max(by_type, key=lambda kind: by_type[kind], default=self.quantisation)

    def kv_elements_read(self, t: int) -> int:
        """Cache elements one step reads with t tokens in the cache, fixed states included."""
        return sum(layer.elements_read(t) for layer in self.kv_layers)

    def in_dtype(self, dtype: str) -> "Model":
        """The same model with every tensor held in `dtype`, as an engine that converts on loading has it.

        Raises KeyError for a dtype that is not in DTYPE_BYTES.
        """
        size = DTYPE_BYTES[dtype]
        groups = tuple(replace(g, types=(dtype,), bytes=g.parameters * size) for g in self.groups)
        return replace(self, groups=groups, held_in=dtype)

    def read_of(self, group: TensorGroup, amount: int) -> int:
        """What one token reads of `amount` (bytes or parameters) of a group."""
        match group.read:
            case Read.ALL:
                return amount
            case Read.ONE_ROW:
                return amount // group.rows
            case Read.ROUTED:
                return amount * self.experts_used // self.experts
            case Read.NONE:
                return 0
