"""This machine as a device: what its probe or its runs have measured, or what is assumed until then."""

import os
from collections.abc import Sequence
from dataclasses import replace

from workbench.errors import StoreError
from workbench.hardware.calibration import Calibration, Work, findings
from workbench.hardware.device import Device
from workbench.hardware.devices import device
from workbench.hardware.machine import THIS_MACHINE, this_machine
from workbench.quantity import Origin, Quantity, Unit
from workbench.runs.database import store_path
from workbench.runs.row import Row
from workbench.runs.store import Store

UNMEASURED = "nothing has been measured on this machine yet: `workbench probe` does"
UNREADABLE = "the store of runs can't be read, so what was measured isn't known: `workbench runs list` says why"
ASSUMED_READ = Quantity("read rate of a small box", 12e9, Unit.BYTES_PER_SECOND, Origin.ASSUMED, "B", source=UNMEASURED)
ASSUMED_FLOP_PER_CORE = 60e9
_FORMATS = {"float32": "fp32", "bfloat16": "fp16", "float16": "fp16"}


def assumed_compute(cores: int) -> Quantity:
    """The arithmetic rate taken for a machine on which none has been measured."""
    return Quantity(
        f"arithmetic rate of {cores} cores",
        ASSUMED_FLOP_PER_CORE * cores,
        Unit.FLOP_PER_SECOND,
        Origin.ASSUMED,
        "C",
        source=UNMEASURED,
    )


def rough_rates(dtype: str, cores: int) -> tuple[Quantity, Quantity]:
    """B and C of this machine for a time told beforehand: as they were measured, else assumed, C of so many cores."""
    found = this_device()
    C = found.compute_for(dtype)
    return found.bandwidth, C if C is not None and C.origin is Origin.MEASURED else assumed_compute(cores)


def device_named(name: str) -> Device:
    """The device of that name, or this machine; raises SettingsError with the nearest known name."""
    return this_device() if name.strip().lower() in (THIS_MACHINE, "this-machine") else device(name)


def this_device() -> Device:
    """This machine as its latest probe found it, or with the rates its latest runs on the CPU measured.

    Assumed rates where there is neither; where the store of runs can't be read their source says so.
    """
    unmeasured = UNMEASURED
    try:
        calibrations, rows = _measured(str(this_machine()))
    except StoreError:
        unmeasured, calibrations, rows = UNREADABLE, [], []
    if calibrations:
        return _calibrated(calibrations)
    compute: dict[str, Quantity] = {}
    for row in rows:
        form = _FORMATS.get(row.dtype)
        if form and row.peak_gflop_per_s and form not in compute:
            compute[form] = _rate(f"{row.dtype} arithmetic of this machine", row, row.peak_gflop_per_s, "C")
    read = next((_rate("read rate of this machine", r, r.read_gb_per_s, "B") for r in rows if r.read_gb_per_s), None)
    machine = this_machine()
    return Device(
        name=THIS_MACHINE,
        title=str(machine),
        bandwidth=read or replace(ASSUMED_READ, source=unmeasured),
        memory=_memory(machine.memory_bytes),
        compute=compute or {"fp32": replace(assumed_compute(machine.cores), source=unmeasured)},
    )


def calibrated_read() -> Quantity | None:
    """B of this machine's last probe; None where there is none that can be read."""
    calibrations = _calibrations()
    return calibrations[0].read if calibrations else None


def calibrated_product(device: str, dtype: str, rows: int) -> Quantity | None:
    """C that the last probe of a device of this machine gave to that many rows; None where none tried few rows."""
    found = (calibration.gemm_at(dtype, rows) for calibration in _calibrations() if calibration.device == device)
    return next((rate for rate in found if rate is not None), None)


def calibrated_gemv(device: str, dtype: str) -> Quantity | None:
    """The rate at which matrix-vector products of a dtype read their weights, by the last probe that tried it."""
    found = (calibration.gemv(dtype) for calibration in _calibrations() if calibration.device == device)
    return next((rate for rate in found if rate is not None), None)


def _calibrations() -> list[Calibration]:
    """Of this machine, as `_measured` has them; none where the store can't be read."""
    try:
        return _measured(str(this_machine()))[0]
    except StoreError:
        return []


def _calibrated(calibrations: Sequence[Calibration]) -> Device:
    """The device the newest probe measured, with what only an earlier one of the same device did.

    bfloat16 stands for 16 bit where both kinds were multiplied.
    """
    found = calibrations[0]
    rates: dict[str, Quantity] = {}
    for calibration in calibrations:
        for dtype in calibration.dtypes(Work.GEMM) if calibration.device == found.device else ():
            rate = calibration.gemm(dtype)
            if rate is not None:
                rates.setdefault(dtype, rate)
    compute = dict(rates)
    for form, dtypes in (("fp32", ("float32",)), ("fp16", ("bfloat16", "float16"))):
        if (rate := next((rates[dtype] for dtype in dtypes if dtype in rates), None)) is not None:
            compute[form] = rate
    read = found.read
    assert read is not None
    return Device(
        name=THIS_MACHINE,
        title=found.machine if found.device == "cpu" else f"{found.device} in {found.machine}",
        bandwidth=read,
        memory=_memory(found.memory_bytes),
        compute=compute,
        notes=tuple(findings(found)),
    )


def _memory(count: int) -> Quantity:
    source = "the system, within this process's own limits"
    return Quantity("memory this process may use", count, Unit.BYTES, Origin.MEASURED, "M", source=source)


def _measured(machine: str) -> tuple[list[Calibration], list[Row]]:
    """Calibrations, those of a quiet box first and the newest of each first, and the CPU's latest rows, newest first.

    Raises StoreError for a store that can't be read.
    """
    if not os.path.lexists(store_path()):
        return [], []
    with Store() as store:
        quiet_first = sorted(store.calibrations(machine), key=lambda calibration: not calibration.quiet)
        return quiet_first, store.latest_rates(machine, "cpu")


def _rate(name: str, row: Row, giga: float | None, symbol: str) -> Quantity:
    unit = Unit.BYTES_PER_SECOND if symbol == "B" else Unit.FLOP_PER_SECOND
    source = f"the better of before and after a point of run {row.run_id}, on {row.model} in {row.dtype}"
    return Quantity(name, (giga or 0.0) * 1e9, unit, Origin.MEASURED, symbol, source=source)
