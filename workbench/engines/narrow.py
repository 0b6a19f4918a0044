"""The same model at negligible width: what is left of its step is what the framework takes."""

import copy
import logging
from typing import Any

import torch
from transformers import initialization

log = logging.getLogger(__name__)
HEAD_WIDTH = 8
NARROW: dict[str, int | None] = {
    "head_dim": HEAD_WIDTH,
    "global_head_dim": HEAD_WIDTH,
    "v_head_dim": HEAD_WIDTH,
    "qk_nope_head_dim": HEAD_WIDTH,
    "qk_rope_head_dim": HEAD_WIDTH,
    "qk_head_dim": 2 * HEAD_WIDTH,
    "q_lora_rank": HEAD_WIDTH,
    "kv_lora_rank": HEAD_WIDTH,
    "intermediate_size": 64,
    "ffn_dim": 64,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "vocab_size": 64,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
"""Widths by the names that transformers' settings have for them; layers, heads and experts stay as many as they are."""

CONTEXT = 16
"""Tokens in the narrow model's cache: as many as cost nothing to attend to."""


def narrow_network(network: Any, device: torch.device | None = None) -> Any | None:
    """A network of the same class with as many layers, heads and experts, each as narrow as can be built.

    On `device`, that of `network` where it is not given. None where the class can't be built so.
    """
    try:
        config = copy.deepcopy(network.config)
        text = config.get_text_config()
        for name, width in NARROW.items():
            if getattr(text, name, None) is not None:
                setattr(text, name, width)
        text.hidden_size = text.num_attention_heads * HEAD_WIDTH
        parameter = next(network.parameters())
        with initialization.no_init_weights(), torch.device(device or parameter.device):
            built = type(network)._from_config(config, dtype=parameter.dtype)
        built.tie_weights()
        for each in built.parameters():
            each.detach().fill_(0.02)
        return built.eval()
    except Exception:
        # Any of a class's own checks may refuse such widths; the ladder then says that this was not measured.
        log.info("no narrow %s", type(network).__name__, exc_info=True)
        return None
