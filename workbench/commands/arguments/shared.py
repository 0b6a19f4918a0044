"""Options that several commands take."""

import argparse
from typing import Any

from workbench.commands.arguments.values import known_cache_type, names, repeats, weights
from workbench.models.cache_types import CACHE_TYPE_BYTES, DEFAULT_CACHE_TYPE
from workbench.models.model import DTYPE_BYTES
from workbench.numbers import positive, share

MODEL_HELP = "a model folder, a .gguf file or a preset"


def add_model(command: argparse.ArgumentParser) -> None:
    """Which model."""
    command.add_argument("model", metavar="MODEL", help=MODEL_HELP)


def add_model_or_server(command: argparse.ArgumentParser) -> None:
    """Which model, or which one of a server's."""
    about = f"{MODEL_HELP}; with --endpoint its name there, default the first it lists"
    command.add_argument("model", metavar="MODEL", nargs="?", help=about)


def add_cache_type(command: argparse.ArgumentParser) -> None:
    """In which element type the cache is held."""
    command.add_argument(
        "--kv-dtype",
        type=known_cache_type,
        default=DEFAULT_CACHE_TYPE,
        metavar="TYPE",
        help=f"element type of the cache: {', '.join(CACHE_TYPE_BYTES)}; default {DEFAULT_CACHE_TYPE}",
    )


def add_weights_dtype(command: argparse.ArgumentParser) -> None:
    """In which element type the weights are held."""
    command.add_argument(
        "--dtype",
        type=str.lower,
        choices=tuple(DTYPE_BYTES),
        metavar="TYPE",
        help=f"hold the weights in {', '.join(DTYPE_BYTES)}; default as they are stored",
    )


def add_box(command: argparse.ArgumentParser, *compute: str) -> None:
    """The box the arithmetic is for: a device or a track's, figures, or this machine."""
    command.add_argument(
        "--hardware", metavar="NAME", help="a device or a track of `workbench presets`; default this machine"
    )
    command.add_argument("--bandwidth", type=positive, metavar="GBPS", help="memory bandwidth in GB/s")
    command.add_argument(
        *compute or ("--compute",), dest="compute", type=positive, metavar="TFLOPS", help="arithmetic rate in TFLOP/s"
    )
    command.add_argument("--memory", type=positive, metavar="GB", help="memory in GB")


def add_layers(command: argparse.ArgumentParser) -> None:
    """Slices of a model that does not fit, or takes too long, as a whole."""
    about = "run slices of K and 2K layers alone: from them the whole model's times follow, labelled as extrapolated"
    command.add_argument("--layers", type=int, metavar="K", help=about)


def add_repeats(command: argparse.ArgumentParser, about: str) -> None:
    """How often a point is measured."""
    command.add_argument("--repeats", type=repeats, metavar="N|auto", help=about)
    command.add_argument(
        "--precision",
        type=share,
        default=0.02,
        metavar="SHARE",
        help="of auto: half the 95 %% interval of each median, as a share of it; default 2%%",
    )
    command.add_argument("--most-repeats", type=int, default=30, metavar="N", help="of auto: the most; default 30")
    command.add_argument("--most-seconds", type=positive, default=10.0, metavar="S", help="of a point; default 10")


def add_levers(command: argparse.ArgumentParser) -> None:
    """What is changed of a model once it is loaded, or everything that a preset sets."""
    command.add_argument(
        "--with",
        dest="levers",
        type=names,
        metavar="NAME,NAME",
        help="run the model with these levers: int8-weights, preallocated-cache, eager-attention, compiled",
    )
    command.add_argument(
        "--track",
        metavar="NAME",
        help="begin from a track of `workbench presets`, a winner that `gap --fastest` kept among them: its model, "
        "dtype, threads, levers and points, where no option says otherwise",
    )
    command.set_defaults(dtype=None, device=None)


def add_engine(command: argparse.ArgumentParser) -> Any:
    """Which engine runs the model, and what is set for each; returns the group of a server's options."""
    command.add_argument(
        "--engine",
        metavar="NAME",
        help="transformers (the default), llama.cpp (a GGUF as it is quantised), llama-bench, or endpoint",
    )
    llama_cpp = command.add_argument_group("llama.cpp (--engine llama.cpp, or llama-bench)")
    llama_cpp.add_argument(
        "--llama-bench", metavar="PATH", help="llama-bench, or the folder it and llama-batched-bench are in"
    )
    llama_cpp.add_argument("--batch-tokens", type=int, metavar="N", help="tokens of a batch; default 2048")
    llama_cpp.add_argument("--micro-batch-tokens", type=int, metavar="N", help="computed at once; default 512")
    llama_cpp.add_argument("--cache-type-k", metavar="TYPE", help="of the cache's keys: f16 (the default), q8_0 …")
    llama_cpp.add_argument("--cache-type-v", metavar="TYPE", help="of its values")
    llama_cpp.add_argument("--gpu-layers", type=int, metavar="N", help="on an accelerator; default llama.cpp's own")
    server = command.add_argument_group("a server that speaks the OpenAI API (MODEL is its name there)")
    server.add_argument("--endpoint", metavar="URL", help="its address; the key is WORKBENCH_API_KEY or --ask-key")
    server.add_argument("--ask-key", action="store_true", default=None, help="ask for the key, which is kept nowhere")
    server.add_argument("--api", metavar="NAME", help="completions or chat; default completions where it has them")
    server.add_argument("--model-behind", metavar="MODEL", help="the folder, file or preset it serves, for the ceiling")
    server.add_argument(
        "--hardware", metavar="NAME", help="the device of `workbench presets` it runs on, for the ceiling"
    )
    server.add_argument("--devices", type=int, metavar="N", help="so many of them, whose bandwidths add")
    server.add_argument("--cache-type", metavar="TYPE", help="element type of its cache; default float16")
    server.add_argument(
        "--timeout", type=positive, metavar="S", help="of silence until a request has failed; default 60"
    )
    return server


def add_loading(command: argparse.ArgumentParser) -> None:
    """What is loaded, and where."""
    command.add_argument(
        "--weights", type=weights, default=(None,), metavar="real,synthetic", help="default: real where there are any"
    )
    add_device(command)


def add_device(command: argparse.ArgumentParser) -> None:
    """In which element type, where, and on how many threads."""
    command.add_argument("--dtype", default="float32", metavar="TYPE", help=", ".join(DTYPE_BYTES))
    command.add_argument("--device", default="auto", metavar="DEVICE", help="auto, cpu, cuda (also ROCm), mps or xpu")
    command.add_argument("--threads", type=int, metavar="N", help="default: all this process may use")
