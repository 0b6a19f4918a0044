"""The device a model runs on, and how to know that it has finished."""

from collections.abc import Callable

import torch

from workbench.errors import SettingsError
from workbench.hardware.heap import give_back_heap

Synchronise = Callable[[], None]


def choose_device(name: str) -> torch.device:
    """The device named, or with `auto` the first accelerator there is, else the processor.

    cuda is also how torch names ROCm devices. Raises SettingsError where the device is not there.
    """
    if name == "auto":
        return next((torch.device(kind) for kind in ("cuda", "xpu", "mps") if _available(kind)), torch.device("cpu"))
    device = torch.device(name)
    if not _available(device.type):
        present = [kind for kind in ("cpu", "cuda", "mps", "xpu") if _available(kind)]
        raise SettingsError(
            f"Torch finds no {device.type} device here (this torch is {torch.__version__}). It can use: "
            f"{', '.join(present)}. Choose one of them, or install a torch build for your device."
        )
    return device


def synchroniser(device: torch.device) -> Synchronise:
    """What to call so that everything queued on the device has finished when it returns."""
    match device.type:
        case "cuda":
            return lambda: torch.cuda.synchronize(device)
        case "xpu":
            return lambda: torch.xpu.synchronize(device)
        case "mps":
            return torch.mps.synchronize
        case _:
            return lambda: None


def device_name(device: torch.device) -> str:
    """The device as a label: its kind, and the accelerator's own name where torch knows it."""
    match device.type:
        case "cuda":
            return f"{device.type} · {torch.cuda.get_device_name(device)}"
        case "xpu":
            return f"{device.type} · {torch.xpu.get_device_name(device)}"
        case _:
            return device.type


def free_bytes(device: torch.device) -> int | None:
    """Memory free on an accelerator of its own; None where the model lives in the machine's memory."""
    match device.type:
        case "cuda":
            return int(torch.cuda.mem_get_info(device)[0])
        case "xpu":
            return int(torch.xpu.mem_get_info(device)[0])
        case _:
            return None


def held_back_bytes(device: torch.device) -> int:
    """Memory of an accelerator that torch holds back for reuse."""
    match device.type:
        case "cuda":
            return int(torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
        case "xpu":
            return int(torch.xpu.memory_reserved(device) - torch.xpu.memory_allocated(device))
        case _:
            return 0


def total_bytes(device: torch.device) -> int | None:
    """Memory of an accelerator of its own; None where the model lives in the machine's memory."""
    match device.type:
        case "cuda":
            return int(torch.cuda.mem_get_info(device)[1])
        case "xpu":
            return int(torch.xpu.mem_get_info(device)[1])
        case _:
            return None


def free_cached(device: torch.device) -> None:
    """Give memory that torch or the C library holds back for reuse to the system again."""
    match device.type:
        case "cuda":
            torch.cuda.empty_cache()
        case "xpu":
            torch.xpu.empty_cache()
        case "mps":
            torch.mps.empty_cache()
        case _:
            give_back_heap()


def _available(kind: str) -> bool:
    match kind:
        case "cpu":
            return True
        case "cuda":
            return torch.cuda.is_available()
        case "xpu":
            return hasattr(torch, "xpu") and torch.xpu.is_available()
        case "mps":
            return torch.backends.mps.is_available()
        case _:
            return False
