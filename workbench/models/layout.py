"""What each layer keeps of the tokens it has seen: the parts that config.json and GGUF metadata share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench.models.model import AttentionLayer, KvKind, KvLayer


@dataclass(frozen=True)
class Layout:
    """A model's shape apart from its tensors; `layers` is None where the settings do not say."""

    layers: int | None
    hidden: int
    context_limit: int | None
    experts: int
    experts_used: int
    kv_layers: tuple[KvLayer, ...]
    attention_layers: tuple[AttentionLayer, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sliding:
    """Which layers of a family slide: all but one of every `period` (None: all), the full one last or first.

    `window` is the family's own, for settings that leave it out.
    """

    period: int | None
    full_first: bool = False
    window: int | None = None

    def slides(self, layer: int) -> bool:
        if self.period is None:
            return True
        full = 0 if self.full_first else self.period - 1
        return layer % self.period != full


# Families whose settings may leave the pattern out. Sources: the model classes of transformers 5.24 and
# llama.cpp's hyperparameter loading, which agree where both know a family.
SLIDING_FAMILIES: Mapping[str, Sliding] = {
    "afmoe": Sliding(4),
    "cohere2": Sliding(4, window=4096),
    "cohere2moe": Sliding(4, full_first=True),
    "deepseek4": Sliding(None),
    "exaone4": Sliding(4),
    "exaone_moe": Sliding(4),
    "gemma2": Sliding(2, window=4096),
    "gemma3": Sliding(6, window=4096),
    "gemma3n": Sliding(5, window=512),
    "gemma4": Sliding(6),
    "gemma_embedding": Sliding(6),
    "gpt_oss": Sliding(2, window=128),
    "laguna": Sliding(4, full_first=True),
    "lfm2": Sliding(None),
    "mellum": Sliding(4),
    "ministral": Sliding(None),
    "mistral": Sliding(None),
    "mixtral": Sliding(None),
    "modern_bert": Sliding(3, full_first=True),
    "moshi": Sliding(None),
    "muse_glimmer": Sliding(4),
    "olmo2": Sliding(4),
    "olmo3": Sliding(4, window=4096),
    "phi3": Sliding(None),
    "phimoe": Sliding(None),
    "plamo3": Sliding(8),
    "recurrent_gemma": Sliding(None, window=2048),
    "smallthinker": Sliding(4, full_first=True, window=4096),
    "starcoder2": Sliding(None),
}


def family(architecture: str) -> str:
    """The family's name however its source spells it: gpt-oss, gpt_oss; gemma3, gemma3_text."""
    return architecture.replace("-", "_").removesuffix("_text")


def full_or_sliding(
    kv_heads: int, key_dim: int, value_dim: int, window: int | None, constant_elements: int = 0
) -> KvLayer:
    """A layer that keeps keys and values of every head: kv_heads·(key_dim + value_dim) elements a token."""
    kind = KvKind.FULL if window is None else KvKind.SLIDING
    return KvLayer(kind, kv_heads * (key_dim + value_dim), window, constant_elements)


def latent(rank: int, rope_dim: int, window: int | None = None) -> KvLayer:
    """A layer that keeps one compressed vector a token: rank + rope_dim elements (DeepSeek-V2's paper)."""
    return KvLayer(KvKind.LATENT, rank + rope_dim, window)


def latent_attention(heads: int, rank: int, rope_dim: int, window: int | None = None) -> AttentionLayer:
    """Attention on the compressed vectors themselves: scores over rank + rope_dim, values over rank."""
    return AttentionLayer(heads, rank + rope_dim // 2, window)


def recurrent(elements: int) -> KvLayer:
    """A layer whose state has a fixed size, whatever the context."""
    return KvLayer(KvKind.RECURRENT, 0, None, elements)


def per_layer(value: int | Sequence[int], layers: int) -> list[int] | None:
    """One figure for each layer, from one for all or one each; None when there are too few."""
    if isinstance(value, int):
        return [value] * layers
    return list(value[:layers]) if len(value) >= layers else None


def unique(notes: Iterable[str]) -> tuple[str, ...]:
    """The notes, each once, in order."""
    return tuple(dict.fromkeys(notes))
