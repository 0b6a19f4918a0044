"""What the command that times the workbench's own disturbance takes."""

from workbench.commands.arguments.parser import Commands, add_command, lazy
from workbench.commands.arguments.shared import MODEL_HELP, add_device


def add_selfcheck(commands: Commands) -> None:
    """`workbench selfcheck`."""
    about = "how much the workbench disturbs its own timings on this box, in some minutes"
    columns = (
        "steps: what stands beside the same decode steps: nothing (bare, twice: their ratio is the noise), the command "
        "line, the app idle, with a sweep on screen, and with keys pressed. median / bare: the median over the rounds "
        "of the ratio of median steps, with its 95 % interval; p90 the same of the 90th percentiles. UI share: "
        "CPU time of the screen inside the timed windows."
    )
    check = add_command(commands, "selfcheck", lazy("selfcheck", "run_selfcheck"), about, columns.replace("%", "%%"))
    check.add_argument("model", metavar="MODEL", nargs="?", default="smollm2-135m", help=MODEL_HELP)
    check.add_argument("--rounds", type=int, default=10, metavar="N", help="rounds of all conditions; at least 10")
    check.add_argument(
        "--most-rounds", type=int, default=30, metavar="N", help="the most, where those can't tell; default 30"
    )
    add_device(check)
