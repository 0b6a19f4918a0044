"""The commands: the same core as the app, without the screen. Imports neither torch nor textual."""

import argparse
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from workbench import __version__
from workbench.errors import SettingsError, WorkbenchError, unknown_name
from workbench.models.cache_types import CACHE_TYPE_BYTES, DEFAULT_CACHE_TYPE, cache_type
from workbench.models.model import DTYPE_BYTES
from workbench.numbers import at_least_zero, count, counts, positive, share, shares, whole_numbers
from workbench.output import Format, note, write_nowhere

Command = Callable[[argparse.Namespace], int]

MODEL_HELP = "a model folder, a .gguf file or a preset"
PROMPTS = (1, 16, 64, 256, 1024, 4096)
ROOFLINE_BATCHES = (1, 4, 16, 64, 256)
SHARES = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0)
OUTPUT_EXIT, USAGE_EXIT, INTERRUPTED_EXIT = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 2 bad input, 1 failed, 130 interrupted."""
    _print_any_character()
    options = _parser().parse_args(arguments)
    _log_to_file()
    command: Command = options.command
    try:
        return command(options)
    except WorkbenchError as error:
        note(f"workbench: {error}")
        return USAGE_EXIT
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT
    except BrokenPipeError:
        # The reader of the output has gone; closing it here keeps Python from complaining at exit.
        write_nowhere(sys.stdout)
        return 0
    except OSError as error:
        write_nowhere(sys.stdout)
        note(f"workbench: the output can't be written: {error.strerror or error}.")
        return OUTPUT_EXIT


class _Parser(argparse.ArgumentParser):
    """Ends with one sentence, and the nearest known word for a typo, instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        said = message.removeprefix("argument ")
        end = "" if said.endswith("?") else "."
        print(f"{self.prog}: {said}{end} `{self.prog} --help` lists what it takes.", file=sys.stderr)
        raise SystemExit(USAGE_EXIT)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse has it, but a mistyped option is told before what is missing because of it.

        What is left over is refused by the command it was given to, whose options are the ones that were meant.
        """
        words = sys.argv[1:] if args is None else list(args)
        for word in takewhile(lambda word: word != "--" and self._is_own(word), words):
            name = word.partition("=")[0]
            if name.startswith("--") and not any(known.startswith(name) for known in self._option_string_actions):
                self.error(f"there is no option {name}.{_offer(name, self._option_string_actions)}")
        options, left = super().parse_known_args(words, namespace)
        if left:
            self.error(f"{left[0]!r} is one word too many")
        return options, left

    def _is_own(self, word: str) -> bool:
        """Whether a word is for this parser: of one with commands, those before the command are."""
        return self._subparsers is None or word.startswith("-")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                action, f"there is no {value!r}.{_offer(str(value), known)} Known: {', '.join(known)}"
            )


def _offer(word: str, known: Iterable[str]) -> str:
    nearest = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" Did you mean {nearest[0]}?" if nearest else ""


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="workbench",
        description="What this box could do with a language model, what it does, and where the difference went. "
        "Without a command it opens the app.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("--preset", metavar="NAME", help="open on a track, a device or a model preset")
    parser.set_defaults(command=_lazy("sweeps", "open_app"))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for add in (
        _add_presets,
        _add_inspect,
        _add_ceiling,
        _add_prefill,
        _add_fit,
        _add_split,
        _add_latency,
        _add_roofline,
        _add_probe,
        _add_predict,
        _add_sweep,
        _add_batch,
        _add_gap,
        _add_runs,
        _add_selfcheck,
    ):
        add(commands)
    return parser


Commands = Any
"""What argparse adds commands to; its type is private to argparse."""


def _lazy(module: str, function: str) -> Command:
    """A command's function, whose module is imported when the command runs."""

    def run(options: argparse.Namespace) -> int:
        found: Command = getattr(import_module(f"workbench.commands.{module}"), function)
        return found(options)

    return run


def _command(commands: Commands, name: str, run: Command, about: str, columns: str = "") -> argparse.ArgumentParser:
    """A command with its `--format`; `columns` explains the headings of its table."""
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=f"{about[:1].upper()}{about[1:]}.", epilog=columns
    )
    _add_format(command)
    command.set_defaults(command=run)
    return command


def _add_presets(commands: Commands) -> None:
    about = "the tracks, hardware and models known, with the source of each figure"
    presets = _command(commands, "presets", _lazy("models", "presets"), about)
    presets.add_argument("name", nargs="?", metavar="NAME", help="one of them, in full")


def _add_inspect(commands: Commands) -> None:
    about = "what a model is and what one token reads, without loading it"
    inspect = _command(commands, "inspect", _lazy("models", "inspect"), about)
    _add_model(inspect)
    _add_cache_type(inspect)


def _add_ceiling(commands: Commands) -> None:
    about = "the most tokens a second a box could decode, from arithmetic"
    columns = (
        "read/step: bytes a decode step of all sequences reads, weights and cache together. least step: the time that "
        "takes at least. tok/s each and total: of one sequence, and of all. experts: how many of each layer's a step "
        "touches. bound by: which limit decides. memory: weights and caches held; fits: whether the box holds them."
    )
    ceiling = _command(commands, "ceiling", _lazy("ceilings", "ceiling"), about, columns)
    ceiling.add_argument("models", nargs="+", metavar="MODEL", help=MODEL_HELP)
    _add_box(ceiling)
    _add_weights_dtype(ceiling)
    _add_cache_type(ceiling)
    ceiling.add_argument(
        "--context", type=counts(0), metavar="LIST", help="tokens in each sequence, as in 0,4096,32768"
    )
    ceiling.add_argument("--batch", type=counts(1), metavar="LIST", help="sequences in a step, as in 1,4,16,64")
    ceiling.add_argument("--levers", action="store_true", help="what raises this ceiling and by how much, instead")


def _add_prefill(commands: Commands) -> None:
    about = "the least time a prompt's prefill could take, and the clock that binds it"
    columns = (
        "FLOP: operations of the whole prompt, attention's among them. F / C and W / B: the time they take, and that "
        "of fetching the weights. least TTFT: the longer of the two, before the first token. bound by: which that is. "
        "n*: the prompt length where arithmetic takes over."
    )
    prefill = _command(commands, "prefill", _lazy("ceilings", "prefill_times"), about, columns)
    _add_model(prefill)
    _add_box(prefill)
    _add_weights_dtype(prefill)
    _add_cache_type(prefill)
    prefill.add_argument(
        "--prompts",
        type=counts(1),
        default=PROMPTS,
        metavar="LIST",
        help=f"prompt lengths; default {','.join(map(str, PROMPTS))}",
    )


def _add_fit(commands: Commands) -> None:
    about = "whether weights and caches fit in a memory, and what is left"
    fit = _command(commands, "fit", _lazy("ceilings", "fit"), about)
    _add_model(fit)
    _add_box(fit)
    _add_weights_dtype(fit)
    _add_cache_type(fit)
    fit.add_argument("--context", type=counts(0), default=(4096,), metavar="LIST", help="tokens in each sequence; 4096")
    fit.add_argument("--batch", type=counts(1), default=(1,), metavar="LIST", help="sequences; default 1")


def _add_split(commands: Commands) -> None:
    about = "what a share of the bytes on a slower memory costs"
    columns = (
        "on slow: the share of the bytes read there. slow by: how many times slower that memory is. least step: the "
        "time of a token's reads. slower: how many times longer than all of it on the fast memory."
    )
    split = _command(commands, "split", _lazy("ceilings", "split_memories"), about, columns)
    _add_model(split)
    split.add_argument("--fast", type=positive, metavar="GBPS", help="GB/s of the fast memory")
    split.add_argument("--hardware", metavar="NAME", help="a device instead, whose memory also says what must be slow")
    split.add_argument("--memory", type=positive, metavar="GB", help="GB of fast memory: what must be slow is added")
    split.add_argument("--slow", type=positive, required=True, metavar="GBPS", help="GB/s of the slower one")
    split.add_argument(
        "--slow-share",
        type=shares,
        default=SHARES,
        metavar="LIST",
        help="shares of the bytes read on the slower one, as in 0,0.05,25%%",
    )
    split.add_argument("--context", type=count(0), default=0, metavar="N", help="tokens in the cache; default 0")
    _add_weights_dtype(split)
    _add_cache_type(split)


def _add_latency(commands: Commands) -> None:
    about = "time to first token, time per output token and both rates, from a stopwatch"
    latency = _command(commands, "latency", _lazy("ceilings", "request_latency"), about)
    for name, kind, about in (
        ("--prompt-tokens", count(1), "tokens of the prompt"),
        ("--output-tokens", count(1), "tokens of the answer"),
        ("--ttft", positive, "seconds from the request to the first token"),
        ("--end", positive, "seconds from the request to the last token"),
    ):
        latency.add_argument(name, type=kind, required=True, metavar="N" if "tokens" in name else "S", help=about)
    latency.add_argument(
        "--waited",
        type=at_least_zero,
        default=0.0,
        metavar="S",
        help="seconds of --ttft spent queueing and tokenising; default 0",
    )
    latency.add_argument("--shorter-prompt", type=count(1), metavar="N", help="what a prompt of N tokens would take")
    latency.add_argument("--faster-decode", type=positive, metavar="X", help="what decode X times faster would take")
    latency.add_argument("--cached-prefix", type=count(0), metavar="N", help="what N prompt tokens cached would take")


def _add_roofline(commands: Commands) -> None:
    about = "the ridge point, the intensity of decode and prefill, and the batch at the ridge"
    roofline = _command(commands, "roofline", _lazy("ceilings", "roofline_points"), about)
    roofline.add_argument("model", nargs="?", metavar="MODEL", help=f"{MODEL_HELP}; default: weights of any model")
    _add_box(roofline, "--peak", "--compute")
    roofline.add_argument(
        "--bytes-per-parameter", type=positive, metavar="X", help="default: the model's own, or 2 (16 bit)"
    )
    roofline.add_argument(
        "--batch", type=counts(1), default=ROOFLINE_BATCHES, metavar="LIST", help="sequences in a step"
    )
    roofline.add_argument("--prompts", type=counts(1), default=(2048,), metavar="LIST", help="prompt lengths")
    roofline.add_argument("--context", type=count(0), default=0, metavar="N", help="tokens in each sequence; default 0")
    _add_weights_dtype(roofline)
    _add_cache_type(roofline)


def _add_probe(commands: Commands) -> None:
    about = "measure this box: read bandwidth by kernel and threads, matrix products by dtype and rows"
    probe = _command(commands, "probe", _lazy("sweeps", "probe"), about)
    probe.add_argument(
        "model", metavar="MODEL", nargs="?", default="qwen3-0.6b", help=f"{MODEL_HELP}, whose shapes are multiplied"
    )
    probe.add_argument("--quick", action="store_true", help="within seconds: fewer kernels, one dtype")
    probe.add_argument("--device", default="auto", metavar="DEVICE", help="auto, cpu, cuda (also ROCm), mps or xpu")


def _add_sweep(commands: Commands) -> None:
    columns = (
        "TTFT ms and TPOT ms: the best of the repeats, beside them what was predicted of each from the operations of "
        "the pass, timed alone before the run. of ceiling: the share of the decode rate that reading weights and cache "
        "allows. Rows that follow from slices say extrapolated, with their intervals."
    )
    about = "time prefill and decode apart over prompt lengths"
    sweep = _command(commands, "sweep", _lazy("sweeps", "sweep"), about, columns)
    _add_model_or_server(sweep)
    sweep.add_argument("--prompts", type=_points, metavar="LIST", help="prompt lengths, as in 1,16,64,256,1024,4096")
    _add_layers(sweep)
    sweep.add_argument("--new-tokens", type=int, metavar="N", help="output tokens of each request; default 17")
    _add_repeats(sweep, "of each prompt length: a fixed count, or auto (the default): until it is precise")
    _add_loading(sweep)
    _add_levers(sweep)
    _add_engine(sweep)


def _add_layers(command: argparse.ArgumentParser) -> None:
    """Slices of a model that does not fit, or takes too long, as a whole."""
    about = "run slices of K and 2K layers alone: from them the whole model's times follow, labelled as extrapolated"
    command.add_argument("--layers", type=int, metavar="K", help=about)


def _add_repeats(command: argparse.ArgumentParser, about: str) -> None:
    """How often a point is measured."""
    command.add_argument("--repeats", type=_repeats, metavar="N|auto", help=about)
    command.add_argument(
        "--precision",
        type=share,
        default=0.02,
        metavar="SHARE",
        help="of auto: half the 95 %% interval of each median, as a share of it; default 2%%",
    )
    command.add_argument("--most-repeats", type=int, default=30, metavar="N", help="of auto: the most; default 30")
    command.add_argument("--most-seconds", type=positive, default=10.0, metavar="S", help="of a point; default 10")


def _add_levers(command: argparse.ArgumentParser) -> None:
    """What is changed of a model once it is loaded, or everything that a preset sets."""
    command.add_argument(
        "--with",
        dest="levers",
        type=_names,
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


def _add_predict(commands: Commands) -> None:
    about = "predict the times of a sweep or a batch sweep from operations timed on this box, and measure none of them"
    columns = (
        "TTFT ms and TPOT ms: the sum of the pass's operations, each as long as it took alone; of a batch TPOT is its "
        "step. from, to: the interval that is to hold 80 % of the measurements. timed: the share of the time whose "
        "operations were timed in the model's own shapes, the rest lies between others'. A model that doesn't fit in "
        "memory is predicted whole: one operation of each shape is timed and nothing is loaded, so no --layers is "
        "needed. A line of how good this box's predictions have been so far goes with them."
    )
    predict = _command(commands, "predict", _lazy("predicting", "predict_run"), about, columns)
    predict.add_argument("model", metavar="MODEL", nargs="?", default="qwen3-0.6b", help=MODEL_HELP)
    predict.add_argument("--prompts", type=_points, metavar="LIST", help="prompt lengths, as in 1,16,64,256,1024,4096")
    predict.add_argument("--new-tokens", type=int, default=17, metavar="N", help="output tokens of each request")
    predict.add_argument("--batches", type=_points, metavar="LIST", help="predict a batch sweep, as in 1,2,4,8")
    predict.add_argument("--contexts", type=_points, metavar="LIST", help="tokens each sequence of a batch holds")
    predict.add_argument(
        "--renew", action="store_true", help="time the operations that matter again, though the box seems the same"
    )
    predict.add_argument(
        "--ledger",
        action="store_true",
        help="what was predicted beside what was measured by model, dtype and phase, the worst misses first, instead",
    )
    _add_device(predict)


def _add_batch(commands: Commands) -> None:
    about = "time a decode step of several sequences together, and say which limit binds it"
    columns = (
        "context: tokens each sequence holds. step ms: the median step, which gives every sequence one token. tok/s "
        "each and total: of one sequence, and of all. predicted: the step's operations, each timed alone beforehand, "
        "or what to expect where `workbench probe` has told what few rows get of C. read/step: bytes a step reads, "
        "weights once and every cache. of ceiling: the share "
        "reached of the bound, the most that reading them allows. calculated limit: weight reads, cache reads, "
        "arithmetic, or memory where a batch was refused; the sentences at the end go by the measured growth of the "
        "step instead."
    )
    batch = _command(commands, "batch", _lazy("sweeps", "batch"), about, columns)
    _add_model_or_server(batch)
    batch.add_argument(
        "--contexts", "--context", type=_points, metavar="LIST", help="tokens each sequence holds, as in 2,256"
    )
    batch.add_argument("--batches", type=_points, metavar="LIST", help="sequences in a step, as in 1,2,4,8,16,32")
    _add_layers(batch)
    batch.add_argument(
        "--steps", type=int, metavar="N", help="a fixed count of steps of each batch; without it 9 in each pass"
    )
    _add_repeats(batch, "passes of each batch: a fixed count, or auto (the default): until it is precise")
    batch.add_argument(
        "--contexts-mixed", action="store_true", help="sequences of unequal length, about a context as their mean"
    )
    _add_loading(batch)
    _add_levers(batch)
    server = _add_engine(batch)
    server.add_argument(
        "--rate", type=positive, metavar="R", help="requests a second, as they arrive; default all of a batch at once"
    )
    server.add_argument("--ttft-limit", type=positive, metavar="MS", help="a request is good up to this TTFT")
    server.add_argument("--tpot-limit", type=positive, metavar="MS", help="and up to this time per output token")


def _add_gap(commands: Commands) -> None:
    about = "take one pass apart, from its ceiling to its measured time in milliseconds, and say what costs most"
    columns = (
        "rung: one cause, and what it adds to the pass. 95 % interval: where that lies, all the ways it was measured "
        "included; a rung whose interval spans zero is not resolved. remainder: what no experiment shows. Ceiling, "
        "rungs and remainder add up to the measured time."
    )
    gap = _command(commands, "gap", _lazy("sweeps", "gap"), about, columns)
    gap.add_argument("model", nargs="?", metavar="MODEL", help=f"{MODEL_HELP}; none with --run")
    gap.add_argument(
        "--run",
        dest="runs",
        nargs="+",
        metavar="RUN",
        help="the ladder that the rows of a kept run show, or of several of one model and box, and what they can't "
        "tell: nothing is measured. --context, --batch and --prefill choose the row; default the largest",
    )
    gap.add_argument("--context", type=int, metavar="N", help="tokens each sequence holds; default 256")
    gap.add_argument("--batch", type=int, metavar="N", help="sequences in the pass; default 1")
    gap.add_argument("--prefill", type=int, metavar="N", help="take a prefill of N tokens apart, not a decode step")
    gap.add_argument("--seconds", type=positive, default=30.0, metavar="S", help="of measuring, five rounds at least")
    gap.add_argument(
        "--perturb",
        action="store_true",
        help="vary the prompt, then the sequences of --context tokens, and say in words what each acts on, instead",
    )
    gap.add_argument(
        "--try",
        dest="levers",
        type=_names,
        default=(),
        metavar="all|NAME,NAME",
        help="try levers on the pass afterwards: all that should save something, or bfloat16, float16, int8-weights, "
        "preallocated-cache, eager-attention, compiled, fewer-threads",
    )
    gap.add_argument("--fastest", action="store_true", help="search combinations of levers, keep the best as a preset")
    gap.add_argument("--within", type=positive, default=300.0, metavar="S", help="seconds of that search; default 300")
    gap.add_argument("--track", metavar="NAME", help="the hardware track whose vendor figures to begin from")
    gap.add_argument(
        "--slow-share", type=share, metavar="SHARE", help="of the bytes read, on a slower memory, as in 25%%"
    )
    gap.add_argument("--slow", type=positive, metavar="GBPS", help="GB/s of that slower memory")
    _add_loading(gap)


def _add_engine(command: argparse.ArgumentParser) -> Any:
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


def _add_loading(command: argparse.ArgumentParser) -> None:
    """What is loaded, and where."""
    command.add_argument(
        "--weights", type=_weights, default=(None,), metavar="real,synthetic", help="default: real where there are any"
    )
    _add_device(command)


def _add_device(command: argparse.ArgumentParser) -> None:
    """In which element type, where, and on how many threads."""
    command.add_argument("--dtype", default="float32", metavar="TYPE", help=", ".join(DTYPE_BYTES))
    command.add_argument("--device", default="auto", metavar="DEVICE", help="auto, cpu, cuda (also ROCm), mps or xpu")
    command.add_argument("--threads", type=int, metavar="N", help="default: all this process may use")


def _add_selfcheck(commands: Commands) -> None:
    about = "how much the workbench disturbs its own timings on this box, in some minutes"
    columns = (
        "steps: what stands beside the same decode steps: nothing (bare, twice: their ratio is the noise), the command "
        "line, the app idle, with a sweep on screen, and with keys pressed. median / bare: the median over the rounds "
        "of the ratio of median steps, with its 95 % interval; p90 the same of the 90th percentiles. UI share: "
        "CPU time of the screen inside the timed windows."
    )
    check = _command(commands, "selfcheck", _lazy("selfcheck", "run_selfcheck"), about, columns.replace("%", "%%"))
    check.add_argument("model", metavar="MODEL", nargs="?", default="smollm2-135m", help=MODEL_HELP)
    check.add_argument("--rounds", type=int, default=10, metavar="N", help="rounds of all conditions; at least 10")
    check.add_argument(
        "--most-rounds", type=int, default=30, metavar="N", help="the most, where those can't tell; default 30"
    )
    _add_device(check)


def _add_runs(commands: Commands) -> None:
    about = "the runs kept: list, show, export, import, explain, compare, resume, delete"
    runs = commands.add_parser("runs", help=about, description="The runs kept.")
    actions = runs.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, function, about in (
        ("list", "list_runs", "all runs, the newest first"),
        ("show", "show", "one run's rows"),
        ("export", "export", "one run's rows as CSV"),
        ("import", "import_results", "results of llama-bench or llama-batched-bench, in any of their formats, as runs"),
        ("explain", "explained", "which symptoms rows of a run show, the phase of each, and what acts on it"),
        ("compare", "compared", "two runs side by side, at the points both measured"),
        ("resume", "resume", "measure the missing points of a run that was interrupted"),
        ("delete", "delete", "take a run and its rows out of the store, for good"),
    ):
        action = actions.add_parser(name, help=about, description=about)
        _add_format(action, Format.CSV if name == "export" else Format.TABLE)
        action.set_defaults(command=_lazy("runs", function))
        if name == "compare":
            action.add_argument("run", metavar="RUN", help="its name, or last")
            action.add_argument("other", metavar="OTHER", help="the run it is compared with: ratios are its over RUN's")
        elif name == "explain":
            action.add_argument(
                "runs", metavar="RUN", nargs="*", default=["last"], help="names, or last (the default), read together"
            )
        elif name == "import":
            _add_import(action)
        elif name == "delete":
            action.add_argument("run", metavar="RUN", help="its name, or last")
        elif name != "list":
            action.add_argument("run", metavar="RUN", nargs="?", default="last", help="its name, or last (the default)")
        if name in ("resume", "delete"):
            action.add_argument(
                "--take-over",
                action="store_true",
                help="of a run whose process is gone with its machine, which can't be seen from here",
            )
        if name == "export":
            action.add_argument("--output", type=Path, metavar="PATH", help="a file; default standard output")


def _add_import(action: argparse.ArgumentParser) -> None:
    action.epilog = (
        "A prefill (pp) and the steps (tg) that go on from as many tokens are one row; others stand alone. Without "
        "--model and --hardware the rows have no ceiling."
    )
    action.add_argument("file", type=Path, metavar="FILE", help="csv, json, jsonl, md or sql; or the batched table")
    action.add_argument("--model", metavar="MODEL", help=f"what was measured: {MODEL_HELP}, quantised as it was")
    action.add_argument("--hardware", metavar="NAME", help="where: a device or a track, or this machine once probed")
    action.add_argument("--again", action="store_true", help="although the same file was imported before")


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL_HELP)


def _add_model_or_server(command: argparse.ArgumentParser) -> None:
    about = f"{MODEL_HELP}; with --endpoint its name there, default the first it lists"
    command.add_argument("model", metavar="MODEL", nargs="?", help=about)


def _add_cache_type(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--kv-dtype",
        type=_cache_type,
        default=DEFAULT_CACHE_TYPE,
        metavar="TYPE",
        help=f"element type of the cache: {', '.join(CACHE_TYPE_BYTES)}; default {DEFAULT_CACHE_TYPE}",
    )


def _add_weights_dtype(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--dtype",
        type=str.lower,
        choices=tuple(DTYPE_BYTES),
        metavar="TYPE",
        help=f"hold the weights in {', '.join(DTYPE_BYTES)}; default as they are stored",
    )


def _add_box(command: argparse.ArgumentParser, *compute: str) -> None:
    """The box the arithmetic is for: a device or a track's, figures, or this machine."""
    command.add_argument(
        "--hardware", metavar="NAME", help="a device or a track of `workbench presets`; default this machine"
    )
    command.add_argument("--bandwidth", type=positive, metavar="GBPS", help="memory bandwidth in GB/s")
    command.add_argument(
        *compute or ("--compute",), dest="compute", type=positive, metavar="TFLOPS", help="arithmetic rate in TFLOP/s"
    )
    command.add_argument("--memory", type=positive, metavar="GB", help="memory in GB")


def _add_format(command: argparse.ArgumentParser, default: Format = Format.TABLE) -> None:
    command.add_argument(
        "--format", type=_format, default=default, metavar="table|json|csv", help=f"default {default.value}"
    )


def _format(text: str) -> Format:
    try:
        return Format(text.strip().lower())
    except ValueError:
        raise argparse.ArgumentTypeError(unknown_name("format", text, list(Format)).rstrip(".")) from None


def _cache_type(text: str) -> str:
    try:
        return cache_type(text)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error).rstrip(".")) from None


def _points(text: str) -> tuple[int, ...]:
    """Prompt lengths, contexts or batches, each once: the settings say which can't be measured."""
    return tuple(dict.fromkeys(whole_numbers(text))) if text.strip() else ()


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in (part.strip().lower() for part in text.split(",")) if word))


def _repeats(text: str) -> Any:
    """A count as it stands, which the settings judge, or the word auto."""
    word = text.strip().lower()
    if word == "auto":
        return word
    try:
        return int(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor auto") from None


def _weights(text: str) -> tuple[Any, ...]:
    from workbench.experiments.settings import Weights

    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or any(word not in list(Weights) for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is not real, synthetic or both with a comma")
    return tuple(Weights(word) for word in dict.fromkeys(words))


def _print_any_character() -> None:
    """Let a terminal that can't show a character show a question mark, rather than end in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _log_to_file() -> None:
    from workbench.paths import log_file

    path = log_file()
    # A log that can't be written, as on a full disk, must neither be told of line by line nor end what is logged.
    logging.raiseExceptions = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        logging.basicConfig(filename=path, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    except OSError:
        logging.basicConfig(handlers=[logging.NullHandler()])
