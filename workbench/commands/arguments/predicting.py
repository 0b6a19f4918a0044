"""What the command that predicts times takes."""

from workbench.commands.arguments.parser import Commands, add_command, lazy
from workbench.commands.arguments.shared import MODEL_HELP, add_device
from workbench.commands.arguments.values import points


def add_predict(commands: Commands) -> None:
    """`workbench predict`."""
    about = "predict the times of a sweep or a batch sweep from operations timed on this box, and measure none of them"
    columns = (
        "TTFT ms and TPOT ms: the sum of the pass's operations, each as long as it took alone; of a batch TPOT is its "
        "step. from, to: the interval that is to hold 80 % of the measurements. timed: the share of the time whose "
        "operations were timed in the model's own shapes, the rest lies between others'. A model that doesn't fit in "
        "memory is predicted whole: one operation of each shape is timed and nothing is loaded, so no --layers is "
        "needed. A line of how good this box's predictions have been so far goes with them."
    )
    predict = add_command(commands, "predict", lazy("predicting", "predict_run"), about, columns)
    predict.add_argument("model", metavar="MODEL", nargs="?", default="qwen3-0.6b", help=MODEL_HELP)
    predict.add_argument("--prompts", type=points, metavar="LIST", help="prompt lengths, as in 1,16,64,256,1024,4096")
    predict.add_argument("--new-tokens", type=int, default=17, metavar="N", help="output tokens of each request")
    predict.add_argument("--batches", type=points, metavar="LIST", help="predict a batch sweep, as in 1,2,4,8")
    predict.add_argument("--contexts", type=points, metavar="LIST", help="tokens each sequence of a batch holds")
    predict.add_argument(
        "--renew", action="store_true", help="time the operations that matter again, though the box seems the same"
    )
    predict.add_argument(
        "--ledger",
        action="store_true",
        help="what was predicted beside what was measured by model, dtype and phase, the worst misses first, instead",
    )
    add_device(predict)
