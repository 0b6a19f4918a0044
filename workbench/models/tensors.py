"""One classifier that turns a tensor table, wherever it was read, into groups by how decoding reads them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from workbench.models.model import Read, TensorGroup


@dataclass(frozen=True)
class Tensor:
    """One stored tensor: its name, shape (rows first), element type, parameters and bytes."""

    name: str
    shape: tuple[int, ...]
    type: str
    parameters: int
    bytes: int


@dataclass(frozen=True)
class Groups:
    """A tensor table in groups, what it says of the embedding, and sentences on what is not modelled."""

    groups: tuple[TensorGroup, ...]
    tied: bool
    vocabulary: int | None
    hidden: int | None
    notes: tuple[str, ...]


EMBEDDING = "token embedding"
HEAD = "output head"
ROUTED = "routed experts"
SHARED = "shared experts"
EXTRA_HEADS = "extra prediction heads"
OTHER = "other"

# The first pattern found in a name decides. GGUF and Hugging Face spell the same parts differently;
# their patterns stand side by side so that a part is described once.
_PATTERNS: tuple[tuple[str, str, Read], ...] = (
    (
        "vision and audio towers",
        r"^(v|mm|a|resampler)\.|\bvisual\.|vision_|\.vis_|audio_|multi_modal_projector|mm_projector|image_newline"
        r"|^mlp1\.|^model\.(connector|projector|aligner|perceiver)\.|embed_vision|embed_audio|video_tower|vqmodel|qformer"
        r"|query_tokens|resampler_model|visual_embeddings_table|audio_encoder|^model\.generation_|view_separator",
        Read.NONE,
    ),
    (EXTRA_HEADS, r"\.nextn\.|(^|\.)mtp[._]|\.(eh_proj|enorm|hnorm|shared_head)\b", Read.NONE),
    ("encoder", r"^(enc\.|encoder\.|model\.encoder\.|text_encoder\.)", Read.NONE),
    ("per-layer embeddings", r"^per_layer_token_embd|embed_tokens_per_layer", Read.ONE_ROW),
    ("position embedding", r"^position_embd|\bwpe\.|embed_positions|position_embeddings", Read.ONE_ROW),
    ("norms", r"norm|\b(pre_)?ln_?|layer_?norm|\.LayerNorm\.", Read.ALL),
    (
        EMBEDDING,
        r"^token_embd\.|\bembed_tokens\.|\bwte\.|word_embeddings\.|^tok_embeddings\.|\bembed_in\.|\bembeddings\.weight"
        r"|(^|\.)shared\.weight|\btok_embeddings\.|\bword_embedding\.",
        Read.ONE_ROW,
    ),
    (HEAD, r"^output\.|\blm_head\.|\bembed_out\.|^head\.weight", Read.ALL),
    (SHARED, r"shexp|shared_expert|shared_mlp", Read.ALL),
    (
        "router",
        r"ffn_gate_inp|exp_probs_b|\.router\b|\.(mlp|mixer|feed_forward)\.gate\.|block_sparse_moe\.gate\.|\.moe\.gate\."
        r"|e_score_correction_bias|expert_bias|\.moe_statics\.",
        Read.ALL,
    ),
    (
        ROUTED,
        r"_(ch)?exps\b|\.experts?\b|\.ffn_(gate|up|down)\.\d+\.|\.(block_sparse_moe|mlp)\.(input|output)_linear",
        Read.ROUTED,
    ),
    ("attention projections", r"\.mixer\.[qkvo]_proj\.", Read.ALL),
    ("feed-forward", r"\.mixer\.(gate|up|down|fc1_latent|fc2_latent)_proj\.|\.temporal_block\.mlp", Read.ALL),
    (
        "recurrent mixers",
        r"\.ssm_|\.shortconv\.|time_mix|channel_mix|linear_attn|\.mamba\.|\.mixer\.|\.conv\.|\.ssm\."
        r"|\.temporal_block\.|\.mlstm_layer\.|\.time_(decay|first)",
        Read.ALL,
    ),
    (
        "attention projections",
        r"\.attn_|self_attn|self_attention|\.attention\.|\.attn\.|cross_?attn|encoder_attn|\.indexer[._]|SelfAttention"
        r"|EncDecAttention|multi_head_attention|crossattention",
        Read.ALL,
    ),
    (
        "feed-forward",
        r"\.ffn_|\.mlps?\.|feed_forward|\.block_sparse_moe\.|\.fc[12]\.|\.dense_|\.ffn\.|DenseReluDense|mlp_block"
        r"|intermediate\.dense|output\.dense",
        Read.ALL,
    ),
    (
        OTHER,
        r"rope_|rotary|inv_freq|layer_output_scale|layer_scalar|altup|laurel|per_layer|\.inp_gate|\.proj\."
        r"|token_type_embeddings|_residual$|\.linear\.weight|(\.|^output_)hc_",
        Read.ALL,
    ),
)
_COMPILED = tuple((group, re.compile(pattern), read) for group, pattern, read in _PATTERNS)
_ORDER = (
    "attention projections", "recurrent mixers", "feed-forward", ROUTED, SHARED, "router", HEAD,
    "norms", EMBEDDING,
)  # fmt: skip
_NUMBER = re.compile(r"\.\d+(?=\.)")
_LAYER = re.compile(r"(?:^|\.)(?:layers|blk|h|blocks)\.(\d{1,9})\.")
_CROSSING = ("cross_attn", "encoder_attn", "EncDecAttention", "crossattention")


@lru_cache(maxsize=4096)
def _purpose(name: str) -> tuple[str, Read] | None:
    for group, pattern, read in _COMPILED:
        if pattern.search(name):
            return group, read
    return None


def _place(name: str, layers: int | None) -> tuple[str, Read, bool]:
    """The group and read of a tensor by its name, and whether the name was recognised."""
    # Layers are alike, so a name is looked up once for all of them.
    purpose = _purpose(_NUMBER.sub(".0", name))
    if purpose is None:
        return OTHER, Read.ALL, False
    if layers is not None and purpose[1] is not Read.NONE:
        layer = _LAYER.search(name)
        if layer and int(layer[1]) >= layers:
            return EXTRA_HEADS, Read.NONE, True
    return *purpose, True


def layers_stored(tensors: Iterable[Tensor]) -> int:
    """How many blocks of the decoder the names number, extra prediction heads among them."""
    numbered = (
        _LAYER.search(t.name)
        for t in tensors
        if (found := _purpose(_NUMBER.sub(".0", t.name))) is None or found[1] is not Read.NONE
    )
    return max((int(found[1]) + 1 for found in numbered if found), default=0)


def group_tensors(
    tensors: Iterable[Tensor], *, layers: int | None, tied: bool | None, experts: int, experts_used: int
) -> Groups:
    """The tensors in groups by how one decode step reads them.

    `layers` is the number the model runs: blocks stored beyond it are extra prediction heads. `tied` is
    what the model's settings say (None: they don't; a table without an output head is then tied).
    """
    placed = [(tensor, *_place(tensor.name, layers)) for tensor in tensors]
    stored_head = any(group == HEAD for _, group, _, _ in placed)
    has_table = any(group == EMBEDDING for _, group, _, _ in placed)
    notes: list[str] = []
    if tied is False and not stored_head and has_table:
        notes.append("The settings say the output head is separate, but none is stored: taken as tied.")
    is_tied = has_table and (not stored_head or bool(tied))

    gathered: dict[tuple[str, Read], list[Tensor]] = {}
    unknown: list[str] = []
    table: Tensor | None = None
    for tensor, group, read, recognised in placed:
        if not recognised:
            unknown.append(tensor.name)
        name, how = group, read
        if group == EMBEDDING:
            table = table if table is not None and table.parameters >= tensor.parameters else tensor
            how = Read.ALL if is_tied else Read.ONE_ROW
        elif group == HEAD and is_tied:
            name, how = "copy of the embedding", Read.NONE
        elif group == ROUTED and not 0 < experts_used < experts:
            how = Read.ALL
        gathered.setdefault((name, how), []).append(tensor)

    routed = any(name == ROUTED for name, _ in gathered)
    if routed and not 0 < experts_used <= experts:
        notes.append("The model has routed experts but does not say how many a token uses: all are counted as read.")
    if unknown:
        shown = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" if len(unknown) > 3 else "")
        notes.append(f"Tensors of unknown purpose are counted as read in full: {shown}.")
    if any(read is not Read.NONE and any(sign in tensor.name for sign in _CROSSING) for tensor, _, read, _ in placed):
        notes.append("Cross-attention over an encoder's output is not modelled: its cache is left out.")
    if any(group == "encoder" for _, group, _, _ in placed):
        notes.append("The encoder runs once for a prompt: it is counted as not read by a decode step.")
    groups = tuple(
        _group(name, how, members)
        for (name, how), members in sorted(
            gathered.items(), key=lambda item: _ORDER.index(item[0][0]) if item[0][0] in _ORDER else len(_ORDER)
        )
    )
    return Groups(
        groups=groups,
        tied=is_tied,
        vocabulary=table.shape[0] if table is not None and table.shape else None,
        hidden=table.shape[-1] if table is not None and len(table.shape) == 2 else None,
        notes=tuple(notes),
    )


def _group(name: str, read: Read, members: list[Tensor]) -> TensorGroup:
    by_type: dict[str, int] = {}
    for tensor in members:
        by_type[tensor.type] = by_type.get(tensor.type, 0) + tensor.bytes
    return TensorGroup(
        name=name,
        types=tuple(sorted(by_type, key=lambda kind: -by_type[kind])),
        parameters=sum(t.parameters for t in members),
        bytes=sum(t.bytes for t in members),
        read=read,
        rows=max([1, *(t.shape[0] for t in members if t.shape)]) if read is Read.ONE_ROW else 1,
    )
