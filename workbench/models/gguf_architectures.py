"""What the architectures of GGUF files leave out of their headers, and which of them are not modelled.

Source: the loader of llama.cpp, one file an architecture (src/models), as llama-cpp-python 0.3.36 carries it.
"""

from collections.abc import Mapping

# The header and the tensors of these say everything, apart from the patterns in SLIDING_FAMILIES.
_SAYS_ALL = frozenset(
    {
        "afmoe", "apertus", "arcee", "arctic", "arwkv7", "baichuan", "bailingmoe", "bailingmoe2", "bailingmoe3",
        "bitnet", "bloom", "chameleon", "chatglm", "codeshell", "cogvlm", "cohere2", "cohere2moe", "command-r", "dbrx",
        "deci", "deepseek", "deepseek2", "deepseek2-ocr", "deepseek32", "dots1", "dots3note", "ernie4_5",
        "ernie4_5-moe", "exaone", "exaone-moe", "exaone4", "falcon", "falcon-h1", "gemma", "gemma2", "gemma3",
        "gemma3n", "gemma4", "glm-dsa", "glm4", "glm4moe", "glm5-next", "gpt-oss", "gpt2", "gptj", "gptneox",
        "granite", "granite_swa", "granitehybrid", "granitemoe", "grok", "hunyuan-dense", "hunyuan-moe", "hunyuan_vl",
        "hy_v3", "hy_v4", "internlm2", "jais", "jais2", "jamba", "kimi-k3", "kimi-linear", "laguna", "lfm2", "lfm2moe",
        "llama", "llama4", "maincoder", "mamba", "mamba2", "maple", "mellum", "mimo2", "minicpm", "minicpm3",
        "minimax-01", "minimax-m2", "minimax-m3", "mistral3", "mistral4", "mpt", "muse-glimmer", "nemotron",
        "nemotron_h", "nemotron_h_moe", "olmo", "olmo2", "olmoe", "openelm", "orion", "paddleocr", "pangu-embedded",
        "phi2", "phi3", "phimoe", "plamo", "plamo2", "plamo3", "plm", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3",
        "qwen35", "qwen35moe", "qwen3moe", "qwen3next", "qwen3vl", "qwen3vlmoe", "refact", "rwkv6", "rwkv6qwen2",
        "rwkv7", "seed_oss", "smallthinker", "smollm3", "spark2_5", "stablelm", "starcoder", "starcoder2", "step35",
        "t5", "talkie", "xverse",
    }
)  # fmt: skip

_ENCODER = "It reads a text in one pass and writes none: it has no decode step and keeps no cache."
_DIFFUSION = "It writes by diffusion, all positions at once, over and over: decode figures do not describe it."
_DRAFT = "It drafts tokens for another model, whose cache and embeddings it uses: it does not run alone."
_SPEECH = "It writes sound through parts that are not modelled: its figures cover the decoder alone."
CACHELESS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "bert", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "llama-embed", "modern-bert",
            "neo-bert", "nomic-bert", "nomic-bert-moe", "t5encoder", "wavtokenizer-dec",
        ),
        _ENCODER,
    ),
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), _DIFFUSION),
}  # fmt: skip
"""Architectures that keep no cache, each with the sentence that says why."""

_NOT_MODELLED: Mapping[str, str] = {
    **dict.fromkeys(("dflash", "eagle3", "gemma4-assistant"), _DRAFT),
    **dict.fromkeys(("pockettts", "qwen3tts"), _SPEECH),
    "deepseek4": "Of its cache only the window is counted; the compressed entries and their indexer are not modelled.",
    "graniteswitch": "The router between its adapters is not modelled: all adapters are counted as read.",
    "grovemoe": "Its chunk experts serve several experts each: up to twice what is counted may be read of them.",
    "hrm_text": "It runs its layers several times a token, which is not modelled: they are counted as read once.",
    "nanbeige": "It may run its layers several times a token, which is not modelled: they are counted as read once.",
    "qwen4exp": "Its compressed caches and their indexer are not modelled: counted as full attention.",
}

_WINDOW_WHEN_ABSENT: Mapping[str, int] = {
    "cohere2": 4096,
    "exaone-moe": 128,
    "gemma2": 4096,
    "gemma3n": 512,
    "gpt-oss": 128,
}
_EXAONE4_SLIDING_LAYERS = 64
LLAMA4_CHUNK = 8192
"""Chunked attention of Llama 4, whatever its header says, unless that says 0."""


def is_known(architecture: str) -> bool:
    """Whether this workbench knows how files of the architecture are read."""
    return architecture in _SAYS_ALL or architecture in CACHELESS or architecture in _NOT_MODELLED


def architecture_notes(architecture: str) -> tuple[str, ...]:
    """What a person must be told of an architecture that is unknown, or not modelled in full."""
    if not is_known(architecture):
        return (
            f"The architecture {architecture!r} is not known to this workbench: its cache and reads rest on the "
            "general keys of the header and the names of the tensors alone.",
        )
    said = CACHELESS.get(architecture) or _NOT_MODELLED.get(architecture)
    return (f"{architecture} is not modelled in full. {said}",) if said else ()


def window_when_absent(architecture: str, layers: int) -> int:
    """The window of an architecture whose header may leave it out; 0 where that means none."""
    if architecture == "exaone4":
        return 4096 if layers == _EXAONE4_SLIDING_LAYERS else 0
    return _WINDOW_WHEN_ABSENT.get(architecture, 0)
