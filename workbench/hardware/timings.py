"""How long this box takes for one operation of a transformer's pass: timed cells, and what they were timed under."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import dist, exp, log, prod
from statistics import median

NEIGHBOURS = 6
"""Cells an operation that was not timed is interpolated between."""
NEAREST = 0.05
"""Distance, in logarithms, up to which a cell is taken for the operation itself, scaled by its amount of work."""


class Task(StrEnum):
    """What an operation does; its `shape` is that of the comment."""

    PRODUCT = "product"  # out features, in features
    ATTEND = "attend"  # sequences, tokens in the cache afterwards, heads, key-value heads, head dimension
    NORM = "norm"  # width
    ROTATE = "rotate"  # heads, key-value heads, head dimension
    GATE = "gate"  # width of a feed-forward row
    ADD = "add"  # width
    CHOOSE = "choose"  # vocabulary
    EXPERTS = "experts"  # experts, experts a token uses, width of a feed-forward row, hidden width
    LAYER = "layer"  # layers of a kind have no shape: `family` tells them apart
    STEP = "step"  # as LAYER


WIDE = (Task.PRODUCT, Task.EXPERTS)
"""What reads weights."""
FRAMEWORK = (Task.LAYER, Task.STEP)
"""What a layer and a pass cost besides their operations: the interpreter's and the dispatcher's share."""


@dataclass(frozen=True)
class Operation:
    """One operation on `rows` rows, all sequences' tokens together; `family` where the kind of model matters."""

    task: Task
    rows: int
    shape: tuple[int, ...] = ()
    family: str = ""

    @property
    def amount(self) -> float:
        """Multiply-adds, or elements gone over: what its time is proportional to, other things being equal."""
        match self.task:
            case Task.ATTEND:
                b, t, heads, kv_heads, head_dim = self.shape
                return head_dim * (self.rows * t * heads + b * t * kv_heads)
            case Task.ROTATE:
                heads, kv_heads, head_dim = self.shape
                return self.rows * (heads + kv_heads) * head_dim
            case Task.EXPERTS:
                _, used, f, h = self.shape
                return 3 * self.rows * used * f * h
            case Task.LAYER | Task.STEP:
                return 1.0
            case _:
                return self.rows * prod(self.shape)

    @property
    def elements(self) -> int:
        """Elements of its weights or caches and of the rows that go in and come out of it: what it holds at a time."""
        match self.task:
            case Task.PRODUCT:
                out, into = self.shape
                return out * into + self.rows * (out + into)
            case Task.EXPERTS:
                experts, used, f, h = self.shape
                return 3 * experts * f * h + self.rows * used * (3 * f + 2 * h)
            case Task.ATTEND:
                b, t, heads, kv_heads, head_dim = self.shape
                return b * head_dim * (4 * t * kv_heads + 2 * self.rows * heads)
            case _:
                return 3 * self.rows * prod(self.shape)

    def __str__(self) -> str:
        return f"{self.task} of {self.rows:,} × {'×'.join(map(str, self.shape)) or self.family}"


@dataclass(frozen=True)
class Conditions:
    """What a cell's time depends on besides its operation; cells of other conditions predict nothing.

    `policy` is the processor's frequency policy, empty where the system doesn't say.
    """

    machine: str
    device: str
    dtype: str
    threads: int
    versions: str
    policy: str = ""

    def apart_from(self, other: "Conditions") -> str:
        """What of these conditions is otherwise in others, in words: "4 threads, policy powersave"; empty for none."""
        words = {
            "machine": self.machine,
            "device": self.device,
            "dtype": self.dtype,
            "threads": "1 thread" if self.threads == 1 else f"{self.threads} threads",
            "versions": f"transformers {self.versions}",
            "policy": f"frequency policy {self.policy or 'unknown'}",
        }
        return ", ".join(said for name, said in words.items() if getattr(self, name) != getattr(other, name))


@dataclass(frozen=True)
class Timing:
    """The seconds of an operation: one for each pass over weights and caches of `working_bytes`, the mean of
    its calls there.

    `other_load` is the share of all cores that other programs took meanwhile.
    """

    operation: Operation
    conditions: Conditions
    working_bytes: int
    seconds: tuple[float, ...]
    taken_at: str
    other_load: float = 0.0

    @property
    def median(self) -> float:
        """The median pass."""
        return median(self.seconds)


@dataclass(frozen=True)
class Estimate:
    """Seconds of an operation, the cells they come from, and whether the operation itself was `timed`."""

    seconds: float
    cells: tuple[Timing, ...]
    timed: bool


class Table:
    """Cells of one set of conditions, asked for any operation; of several of the same one the last counts."""

    def __init__(self, timings: Iterable[Timing]) -> None:
        self.timings = tuple({(each.operation, each.working_bytes): each for each in timings}.values())

    @cached_property
    def _by_task(self) -> dict[tuple[Task, str], list[Timing]]:
        found: dict[tuple[Task, str], list[Timing]] = {}
        for timing in self.timings:
            found.setdefault((timing.operation.task, timing.operation.family), []).append(timing)
        return found

    def estimate(self, operation: Operation, working_bytes: int) -> Estimate | None:
        """Its seconds where weights and caches of `working_bytes` are gone over; None where nothing like it was timed.

        Between cells the logarithm of the time for each unit of work is averaged, nearer cells weighing more
        (inverse squared distance over the logarithms of rows, shape and working set).
        """
        cells = self._by_task.get((operation.task, operation.family), [])
        if not cells:
            return None
        near = sorted(((_distance(operation, working_bytes, cell), cell) for cell in cells), key=lambda pair: pair[0])
        if near[0][0] <= NEAREST:
            cell = near[0][1]
            return Estimate(cell.median * (operation.amount / cell.operation.amount), (cell,), timed=True)
        near = near[:NEIGHBOURS]
        weights = [1 / distance**2 for distance, _ in near]
        each = [log(cell.median / cell.operation.amount) for _, cell in near]
        mean = sum(w * x for w, x in zip(weights, each, strict=True)) / sum(weights)
        return Estimate(operation.amount * exp(mean), tuple(cell for _, cell in near), timed=False)


def _distance(operation: Operation, working_bytes: int, cell: Timing) -> float:
    """How unlike a cell is: the length of the difference of the logarithms of what a time depends on."""
    here, there = _coordinates(operation, working_bytes), _coordinates(cell.operation, cell.working_bytes)
    return dist([log(x) for x in here], [log(x) for x in there])


def _coordinates(operation: Operation, working_bytes: int) -> Sequence[float]:
    if operation.task in FRAMEWORK:
        return (operation.rows,)
    return (operation.rows, *operation.shape, working_bytes)
