"""What the commands that are arithmetic alone take."""

from workbench.commands.arguments.parser import Commands, add_command, lazy
from workbench.commands.arguments.shared import MODEL_HELP, add_box, add_cache_type, add_model, add_weights_dtype
from workbench.numbers import at_least_zero, count, counts, positive, shares

PROMPTS = (1, 16, 64, 256, 1024, 4096)
ROOFLINE_BATCHES = (1, 4, 16, 64, 256)
SHARES = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0)


def add_ceiling(commands: Commands) -> None:
    """`workbench ceiling`."""
    about = "the most tokens a second a box could decode, from arithmetic"
    columns = (
        "read/step: bytes a decode step of all sequences reads, weights and cache together. least step: the time that "
        "takes at least. tok/s each and total: of one sequence, and of all. experts: how many of each layer's a step "
        "touches. bound by: which limit decides. memory: weights and caches held; fits: whether the box holds them."
    )
    ceiling = add_command(commands, "ceiling", lazy("ceilings", "ceiling"), about, columns)
    ceiling.add_argument("models", nargs="+", metavar="MODEL", help=MODEL_HELP)
    add_box(ceiling)
    add_weights_dtype(ceiling)
    add_cache_type(ceiling)
    ceiling.add_argument(
        "--context", type=counts(0), metavar="LIST", help="tokens in each sequence, as in 0,4096,32768"
    )
    ceiling.add_argument("--batch", type=counts(1), metavar="LIST", help="sequences in a step, as in 1,4,16,64")
    ceiling.add_argument("--levers", action="store_true", help="what raises this ceiling and by how much, instead")


def add_prefill(commands: Commands) -> None:
    """`workbench prefill`."""
    about = "the least time a prompt's prefill could take, and the clock that binds it"
    columns = (
        "FLOP: operations of the whole prompt, attention's among them. F / C and W / B: the time they take, and that "
        "of fetching the weights. least TTFT: the longer of the two, before the first token. bound by: which that is. "
        "n*: the prompt length where arithmetic takes over."
    )
    prefill = add_command(commands, "prefill", lazy("ceilings", "prefill_times"), about, columns)
    add_model(prefill)
    add_box(prefill)
    add_weights_dtype(prefill)
    add_cache_type(prefill)
    prefill.add_argument(
        "--prompts",
        type=counts(1),
        default=PROMPTS,
        metavar="LIST",
        help=f"prompt lengths; default {','.join(map(str, PROMPTS))}",
    )


def add_fit(commands: Commands) -> None:
    """`workbench fit`."""
    about = "whether weights and caches fit in a memory, and what is left"
    fit = add_command(commands, "fit", lazy("ceilings", "fit"), about)
    add_model(fit)
    add_box(fit)
    add_weights_dtype(fit)
    add_cache_type(fit)
    fit.add_argument("--context", type=counts(0), default=(4096,), metavar="LIST", help="tokens in each sequence; 4096")
    fit.add_argument("--batch", type=counts(1), default=(1,), metavar="LIST", help="sequences; default 1")


def add_split(commands: Commands) -> None:
    """`workbench split`."""
    about = "what a share of the bytes on a slower memory costs"
    columns = (
        "on slow: the share of the bytes read there. slow by: how many times slower that memory is. least step: the "
        "time of a token's reads. slower: how many times longer than all of it on the fast memory."
    )
    split = add_command(commands, "split", lazy("ceilings", "split_memories"), about, columns)
    add_model(split)
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
    add_weights_dtype(split)
    add_cache_type(split)


def add_latency(commands: Commands) -> None:
    """`workbench latency`."""
    about = "time to first token, time per output token and both rates, from a stopwatch"
    latency = add_command(commands, "latency", lazy("ceilings", "request_latency"), about)
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


def add_roofline(commands: Commands) -> None:
    """`workbench roofline`."""
    about = "the ridge point, the intensity of decode and prefill, and the batch at the ridge"
    roofline = add_command(commands, "roofline", lazy("ceilings", "roofline_points"), about)
    roofline.add_argument("model", nargs="?", metavar="MODEL", help=f"{MODEL_HELP}; default: weights of any model")
    add_box(roofline, "--peak", "--compute")
    roofline.add_argument(
        "--bytes-per-parameter", type=positive, metavar="X", help="default: the model's own, or 2 (16 bit)"
    )
    roofline.add_argument(
        "--batch", type=counts(1), default=ROOFLINE_BATCHES, metavar="LIST", help="sequences in a step"
    )
    roofline.add_argument("--prompts", type=counts(1), default=(2048,), metavar="LIST", help="prompt lengths")
    roofline.add_argument("--context", type=count(0), default=0, metavar="N", help="tokens in each sequence; default 0")
    add_weights_dtype(roofline)
    add_cache_type(roofline)
