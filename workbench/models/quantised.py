"""Weights that exist only as settings, in the types a quantization_config says they are stored in."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.models.tensors import Tensor

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Scheme:
    """How one method stores a matrix: bits of a weight, and bytes of scales for each block of `rows` x `columns`.

    A block size of None is the whole of that side. `block_bytes` covers a block's scale and its zero point.
    """

    type: str
    bits: int
    block_bytes: float
    rows: int | None = 1
    columns: int | None = None

    def stored_bytes(self, shape: tuple[int, ...]) -> int:
        """Bytes of a matrix, or of a stack of them, rows and columns last."""
        *stack, r, c = shape
        matrices = math.prod(stack)
        blocks = math.ceil(r / (self.rows or max(r, 1))) * math.ceil(c / (self.columns or max(c, 1)))
        return matrices * ((r * c * self.bits + 7) // 8 + math.ceil(blocks * self.block_bytes))


MXFP4 = Scheme("mxfp4", 4, 1, 1, 32)
"""32 weights of 4 bits share a scale of 8: 17 bytes for 32 (OCP Microscaling Formats 1.0)."""
_NOT_LINEAR = re.compile(r"embed|norm|lm_head|\bhead\b|router|\.gate\.weight$|conv1d|\bwte\b|\bwpe\b|shared\.weight$")
_SKIPPED = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "llm_int8_skip_modules")
_TOWERS = re.compile(r"vision|visual|audio|projector|\bmtp\b")


def quantised(tensors: Iterable[Tensor], settings: Settings) -> tuple[tuple[Tensor, ...], str]:
    """The tensors as the method stores them, and a sentence on how that was told.

    A method that is not known here leaves the tensors as they are, and the sentence says so.
    """
    method = str(settings.get("quant_method") or ("mlx" if "group_size" in settings else "unnamed"))
    scheme = _scheme(method, settings)
    if scheme is None:
        return tuple(tensors), (
            f"How the quantisation method {method!r} stores weights is not modelled: they are counted in the dtype "
            "that the settings state. With the safetensors files the bytes would be exact."
        )
    skipped = tuple(str(name) for key in _SKIPPED for name in _listed(settings.get(key)))
    only_experts = method == "mxfp4"
    stored = tuple(
        replace(tensor, type=scheme.type, bytes=scheme.stored_bytes(tensor.shape))
        if _is_quantised(tensor, skipped, only_experts, method == "mlx")
        else tensor
        for tensor in tensors
    )
    return stored, (
        f"The bytes are computed from what {method} stores for each matrix, as there are no weights to read them from."
    )


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_quantised(tensor: Tensor, skipped: tuple[str, ...], only_experts: bool, with_tables: bool) -> bool:
    name = tensor.name
    if len(tensor.shape) < 2 or name.endswith("bias"):
        return False
    if only_experts and ".experts." not in name:
        return False
    if with_tables and re.search(r"embed_tokens|lm_head", name):
        return True
    if _NOT_LINEAR.search(name) or (len(tensor.shape) > 2 and ".experts" not in name) or _TOWERS.search(name):
        return False
    return not any(_matches(pattern, name) for pattern in skipped)


def _matches(pattern: str, name: str) -> bool:
    """Whether a name of a list of exceptions stands for a tensor: a part of its path, or a regular expression."""
    if pattern.startswith("re:"):
        try:
            return re.search(pattern[3:], name.removesuffix(".weight")) is not None
        except re.error:
            return False
    middle = re.escape(pattern.strip("*")).replace(r"\*", ".*")
    return re.search(rf"(^|\.){middle.removeprefix('.')}(\.|$)", name) is not None


def _scheme(method: str, settings: Settings) -> Scheme | None:
    """The scheme of a method, or None where it is not known.

    Sources: the quantisers of transformers 5.24 and the formats' own descriptions (AutoGPTQ, AutoAWQ, bitsandbytes,
    compressed-tensors, MLX).
    """
    bits, group = _count(settings, "bits", "w_bit"), _count(settings, "group_size", "q_group_size")
    match method:
        case "mxfp4":
            return MXFP4
        case "fp8" | "fbgemm_fp8":
            block = settings.get("weight_block_size")
            if isinstance(block, list) and len(block) == 2 and all(isinstance(b, int) and b > 0 for b in block):
                return Scheme("float8_e4m3fn", 8, 4, block[0], block[1])
            return Scheme("float8_e4m3fn", 8, 4, 1 if method == "fbgemm_fp8" else None)
        case "gptq" | "awq" if bits:
            # A scale in float16 and a zero point of as many bits as a weight, for each group of a row.
            return Scheme(f"int{bits}", bits, 2 + bits / 8, 1, group)
        case "mlx" if bits:
            return Scheme(f"int{bits}", bits, 4, 1, group or 64)
        case "bitsandbytes" if settings.get("load_in_4bit") or settings.get("_load_in_4bit"):
            # Blocks of 64 run along the flattened matrix; doubly quantised, their scale takes a byte and a little.
            nested = settings.get("bnb_4bit_use_double_quant")
            kind = str(settings.get("bnb_4bit_quant_type") or "fp4")
            return Scheme(kind, 4, 1 + 4 / 256 if nested else 4, 1, 64)
        case "bitsandbytes":
            return Scheme("int8", 8, 4, 1)
        case "compressed-tensors":
            return _compressed(settings)
        case _:
            return None


def _compressed(settings: Settings) -> Scheme | None:
    groups = settings.get("config_groups")
    each = list(groups.values()) if isinstance(groups, Mapping) else []
    weights = [group.get("weights") for group in each if isinstance(group, Mapping)]
    # Groups that differ would need their targets told apart.
    if len(weights) != 1 or not isinstance(weights[0], Mapping):
        return None
    told = weights[0]
    bits, group = _count(told, "num_bits"), _count(told, "group_size")
    if bits is None:
        return None
    kind = f"{told.get('type') or 'int'}{bits}"
    match told.get("strategy"):
        case "tensor":
            return Scheme(kind, bits, 2, None)
        case "channel":
            return Scheme(kind, bits, 2, 1)
        case "group" if group:
            return Scheme(kind, bits, 2 if told.get("symmetric", True) else 2 + bits / 8, 1, group)
        case "tensor_group" if group:
            return Scheme(kind, bits, 1, 1, group)
        case "block":
            block = told.get("block_structure")
            return Scheme(kind, bits, 2, *block) if isinstance(block, list) and len(block) == 2 else None
        case _:
            return None


def _count(settings: Settings, *keys: str) -> int | None:
    return next((settings[k] for k in keys if type(settings.get(k)) is int and 0 < settings[k] <= 1 << 20), None)


def quantisation_name(settings: Settings) -> str:
    """The method that the settings name, with its bits."""
    method = settings.get("quant_method") or ("mlx" if "group_size" in settings else "unnamed")
    bits = settings.get("bits")
    return f"{method} {bits}-bit" if bits else str(method)
