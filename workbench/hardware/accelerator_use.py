"""How busy an accelerator is and how full its memory, asked of the driver without loading torch."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DRM = Path("/sys/class/drm")


@dataclass(frozen=True)
class AcceleratorUse:
    """One accelerator now: the share of the last moment it worked, and bytes of its memory; None where not said."""

    name: str
    busy_share: float | None
    used_bytes: int
    total_bytes: int


Ask = Callable[[], tuple[AcceleratorUse, ...]]


def accelerator_source() -> Ask | None:
    """What to call for the use of this box's accelerators; None where there are none that can be asked.

    NVIDIA devices need the optional package nvidia-ml-py, AMD ones a Linux kernel that shows them in sysfs.
    """
    return _nvidia() or _amd()


def _nvidia() -> Ask | None:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        devices = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        names = [_text(pynvml.nvmlDeviceGetName(device)) for device in devices]
    except pynvml.NVMLError:
        return None

    def ask() -> tuple[AcceleratorUse, ...]:
        found = []
        for name, device in zip(names, devices, strict=True):
            try:
                memory = pynvml.nvmlDeviceGetMemoryInfo(device)
            except pynvml.NVMLError:
                continue
            try:
                busy = pynvml.nvmlDeviceGetUtilizationRates(device).gpu / 100
            except pynvml.NVMLError:
                # A slice of a shared device says how full it is, but not how busy.
                busy = None
            found.append(AcceleratorUse(name, busy, int(memory.used), int(memory.total)))
        return tuple(found)

    return ask if devices else None


def _amd() -> Ask | None:
    folders = [path.parent for path in sorted(DRM.glob("card*/device/mem_info_vram_total"))]

    def ask() -> tuple[AcceleratorUse, ...]:
        found = []
        for index, folder in enumerate(folders):
            used, total = _number(folder / "mem_info_vram_used"), _number(folder / "mem_info_vram_total")
            busy = _number(folder / "gpu_busy_percent")
            if used is not None and total:
                found.append(AcceleratorUse(f"AMD GPU {index}", None if busy is None else busy / 100, used, total))
        return tuple(found)

    return ask if folders else None


def _text(name: str | bytes) -> str:
    """A device's name; older versions of the binding give bytes."""
    return name.decode(errors="replace") if isinstance(name, bytes) else name


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
