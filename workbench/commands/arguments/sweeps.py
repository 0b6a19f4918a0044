"""What the commands that measure a model or this box take."""

from workbench.commands.arguments.parser import Commands, add_command, lazy
from workbench.commands.arguments.shared import (
    MODEL_HELP,
    add_engine,
    add_layers,
    add_levers,
    add_loading,
    add_model_or_server,
    add_repeats,
)
from workbench.commands.arguments.values import names, points
from workbench.numbers import positive, share


def add_probe(commands: Commands) -> None:
    """`workbench probe`."""
    about = "measure this box: read bandwidth by kernel and threads, matrix products by dtype and rows"
    probe = add_command(commands, "probe", lazy("sweeps", "probe"), about)
    probe.add_argument(
        "model", metavar="MODEL", nargs="?", default="qwen3-0.6b", help=f"{MODEL_HELP}, whose shapes are multiplied"
    )
    probe.add_argument("--quick", action="store_true", help="within seconds: fewer kernels, one dtype")
    probe.add_argument("--device", default="auto", metavar="DEVICE", help="auto, cpu, cuda (also ROCm), mps or xpu")


def add_sweep(commands: Commands) -> None:
    """`workbench sweep`."""
    columns = (
        "TTFT ms and TPOT ms: the best of the repeats, beside them what was predicted of each from the operations of "
        "the pass, timed alone before the run. of ceiling: the share of the decode rate that reading weights and cache "
        "allows. Rows that follow from slices say extrapolated, with their intervals."
    )
    about = "time prefill and decode apart over prompt lengths"
    sweep = add_command(commands, "sweep", lazy("sweeps", "sweep"), about, columns)
    add_model_or_server(sweep)
    sweep.add_argument("--prompts", type=points, metavar="LIST", help="prompt lengths, as in 1,16,64,256,1024,4096")
    add_layers(sweep)
    sweep.add_argument("--new-tokens", type=int, metavar="N", help="output tokens of each request; default 17")
    add_repeats(sweep, "of each prompt length: a fixed count, or auto (the default): until it is precise")
    add_loading(sweep)
    add_levers(sweep)
    add_engine(sweep)


def add_batch(commands: Commands) -> None:
    """`workbench batch`."""
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
    batch = add_command(commands, "batch", lazy("sweeps", "batch"), about, columns)
    add_model_or_server(batch)
    batch.add_argument(
        "--contexts", "--context", type=points, metavar="LIST", help="tokens each sequence holds, as in 2,256"
    )
    batch.add_argument("--batches", type=points, metavar="LIST", help="sequences in a step, as in 1,2,4,8,16,32")
    add_layers(batch)
    batch.add_argument(
        "--steps", type=int, metavar="N", help="a fixed count of steps of each batch; without it 9 in each pass"
    )
    add_repeats(batch, "passes of each batch: a fixed count, or auto (the default): until it is precise")
    batch.add_argument(
        "--contexts-mixed", action="store_true", help="sequences of unequal length, about a context as their mean"
    )
    add_loading(batch)
    add_levers(batch)
    server = add_engine(batch)
    server.add_argument(
        "--rate", type=positive, metavar="R", help="requests a second, as they arrive; default all of a batch at once"
    )
    server.add_argument("--ttft-limit", type=positive, metavar="MS", help="a request is good up to this TTFT")
    server.add_argument("--tpot-limit", type=positive, metavar="MS", help="and up to this time per output token")


def add_gap(commands: Commands) -> None:
    """`workbench gap`."""
    about = "take one pass apart, from its ceiling to its measured time in milliseconds, and say what costs most"
    columns = (
        "rung: one cause, and what it adds to the pass. 95 % interval: where that lies, all the ways it was measured "
        "included; a rung whose interval spans zero is not resolved. remainder: what no experiment shows. Ceiling, "
        "rungs and remainder add up to the measured time."
    )
    gap = add_command(commands, "gap", lazy("sweeps", "gap"), about, columns)
    gap.add_argument("model", nargs="?", metavar="MODEL", help=f"{MODEL_HELP}; none with --run")
    gap.add_argument(
        "--run",
        dest="runs",
        nargs="+",
        metavar="RUN",
        help="the ladder that the rows of a kept run show, or of several of one model and box, and what they can't "
        "tell: nothing is measured. --context, by a row's prompt or its context_tokens, --batch and --prefill choose "
        "the row; default the largest",
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
        type=names,
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
    add_loading(gap)
