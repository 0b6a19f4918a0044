"""What imported rows stand under: the model and the hardware that a person says they were measured with."""

from dataclasses import dataclass
from functools import cache

from workbench.ceilings import decode, experts, kv_cache, memory_fit, prefill
from workbench.ceilings.batch import Limit, limit
from workbench.errors import SettingsError
from workbench.hardware.device import Device
from workbench.hardware.machine import THIS_MACHINE, this_machine
from workbench.models.cache_types import CACHE_TYPE_BYTES, DEFAULT_CACHE_TYPE, cache_type
from workbench.models.model import Model
from workbench.models.resolve import resolve
from workbench.presets import name_key
from workbench.quantity import Quantity
from workbench.runs.importers.imported_point import Labels, differs
from workbench.runs.measured_device import calibrated_read
from workbench.tracks import hardware_named, load_tracks, track_named

SAME_MODEL = 0.05
"""How far parameters and bytes of weights may lie apart in one model: a table rounds them, a preset leaves some out."""
NOT_NAMED = "not named"
NO_MODEL = "no model was named"
NO_HARDWARE = "no hardware was named"
NOT_PROBED = "this machine has not been probed: `workbench probe` does, then import the file again"


@dataclass(frozen=True)
class Standing:
    """A model and the hardware it ran on, None where a person named none; B in GB/s, as the store's columns have it.

    `this_machine` names the box the workbench runs on where that is the hardware.
    """

    model: Model | None = None
    device: Device | None = None
    track: str = NOT_NAMED
    this_machine: str = ""
    calibrated_gb_per_s: float | None = None
    vendor_gb_per_s: float | None = None

    def __post_init__(self) -> None:
        # Runs of one file stand under the same arithmetic, which is done once for all of them.
        object.__setattr__(self, "floors", cache(self.floors))

    def floors(self, element_bytes: float) -> "Floors | None":
        """The arithmetic of its model with a cache of elements of so many bytes; None where no model was named."""
        return None if self.model is None else Floors(self, self.model, element_bytes)

    @property
    def read_gb_per_s(self) -> float | None:
        """B of the ceilings."""
        return self.calibrated_gb_per_s if self.vendor_gb_per_s is None else self.vendor_gb_per_s

    @property
    def product_rate(self) -> Quantity | None:
        """C of the device for this model's weights, where it is known."""
        if self.device is None or self.model is None or self.read_gb_per_s is None:
            return None
        return self.device.compute_for(self.model.main_type)


def standing(model: str | None, hardware: str | None) -> Standing:
    """What a person names; raises ModelError or SettingsError, with the nearest known name, for what isn't known."""
    named = None if model is None else resolve(model)
    if hardware is None:
        return Standing(named)
    device = hardware_named(hardware)
    found = track_named(hardware, load_tracks())
    track = device.name if found is None else found.name
    if name_key(device.name) == THIS_MACHINE:
        read = calibrated_read()
        here = str(this_machine())
        return Standing(named, device, track, here, calibrated_gb_per_s=None if read is None else read.value / 1e9)
    return Standing(named, device, track, vendor_gb_per_s=device.bandwidth.value / 1e9)


def element_bytes(labels: Labels) -> float:
    """Bytes of an element of the cache, its keys' and values' mean; raises SettingsError for a type not known."""
    types = labels.cache_types or (DEFAULT_CACHE_TYPE, DEFAULT_CACHE_TYPE)
    return sum(CACHE_TYPE_BYTES[cache_type(kind)] for kind in types) / len(types)


def why_none(under: Standing, labels: Labels) -> str:
    """Why rows of these labels have no ceiling; empty where they have one."""
    model = under.model
    if model is None:
        return NO_MODEL if under.device is not None else f"{NO_MODEL}, and {NO_HARDWARE}"
    if other := _other_model(model, labels):
        return other
    try:
        element_bytes(labels)
    except SettingsError as error:
        return str(error).rstrip(".")
    if under.device is None:
        return NO_HARDWARE
    return "" if under.read_gb_per_s is not None else NOT_PROBED


def is_of(model: Model | None, labels: Labels) -> bool:
    """Whether results of these labels can be of that model."""
    return model is not None and not _other_model(model, labels)


def _other_model(model: Model, labels: Labels) -> str:
    N, W = labels.parameters, labels.weight_bytes
    if N is not None and differs(N, model.parameters, SAME_MODEL):
        return f"the file's model has {N:,} parameters, {model.name} {model.parameters:,}"
    if W is not None and differs(W, model.resident_bytes, SAME_MODEL):
        return (
            f"the file's model takes {W / 1e9:.3g} GB, {model.name} {model.resident_bytes / 1e9:.3g} GB: "
            "name the model as it was quantised"
        )
    return ""


@dataclass(frozen=True)
class StepFloor:
    """What a decode step must read and do; a limit is None where no B is known."""

    weight_bytes: int
    cache_bytes: int
    flop: int
    limit: Limit | None
    experts: float | None
    memory_bytes: int


@dataclass(frozen=True)
class PrefillFloor:
    """What a prefill must do; what needs B is None where that isn't known."""

    flop: int
    attention_flop: int
    parameters: int
    head_flop: int
    seconds: float | None
    bound: str | None


@dataclass(frozen=True)
class Floors:
    """The arithmetic of one model on one standing, its cache in elements of so many bytes."""

    under: Standing
    model: Model
    element_bytes: float

    def __post_init__(self) -> None:
        # The same few points stand in thousands of rows.
        object.__setattr__(self, "step", cache(self.step))
        object.__setattr__(self, "prefill", cache(self.prefill))

    def step(self, t: int, b: int, longest: int, shared: int) -> StepFloor:
        """One step of b sequences of t tokens, `longest` at the end, of which all hold `shared` in common."""
        model, size = self.model, self.element_bytes
        W, F = int(decode.weights_read(model, b).value), decode.step_flop(model, t, b).value
        kt = kv_cache.cache_bytes(model, t, size, b)
        if shared:
            # What sequences share need be read but once.
            kt -= (b - 1) * (kv_cache.cache_bytes(model, shared, size) - kv_cache.cache_bytes(model, 0, size))
        B, C = self.under.read_gb_per_s, self.under.product_rate
        expected = experts.touched(model, b)
        return StepFloor(
            weight_bytes=W,
            cache_bytes=kt,
            flop=int(F),
            limit=None if B is None else limit(W, kt, F, B * 1e9, None if C is None else C.value),
            experts=None if expected is None else expected.value,
            memory_bytes=int(memory_fit.needed(model, longest, size, b).value),
        )

    def prefill(self, n: int, d: int) -> PrefillFloor:
        """A prefill of n tokens after d in the cache, which each of them attends to as well."""
        model, B, C = self.model, self.under.read_gb_per_s, self.under.product_rate
        attention = prefill.attention_flop(model, d + n) - prefill.attention_flop(model, d)
        F = int(prefill.flop(model, n).value) - prefill.attention_flop(model, n) + attention
        W = decode.weights_read(model, n).value
        clocks = [] if B is None else [W / (B * 1e9), *([F / C.value] if C is not None else [])]
        return PrefillFloor(
            flop=F,
            attention_flop=attention,
            parameters=prefill.multiplied_parameters(model),
            head_flop=2 * model.head_parameters,
            seconds=max(clocks, default=None),
            bound=None if B is None or C is None else prefill.binding_clock(model, n, B * 1e9, C.value),
        )
