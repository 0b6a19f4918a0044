"""How fast an accelerator is clocked and how warm it is, asked of its driver; nothing where it can't be asked."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AcceleratorClocks:
    """One accelerator now: the clocks of its processors and its memory in MHz, and degrees Celsius."""

    name: str
    processor_mhz: float
    memory_mhz: float
    celsius: float

    def __str__(self) -> str:
        return f"{self.name} at {self.processor_mhz:,.0f} MHz, memory {self.memory_mhz:,.0f} MHz, {self.celsius:.0f} °C"


def read_clocks() -> tuple[AcceleratorClocks, ...]:
    """Of each NVIDIA device; none without the optional package nvidia-ml-py or a driver."""
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
        devices = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return tuple(
            AcceleratorClocks(
                name=_text(pynvml.nvmlDeviceGetName(device)),
                processor_mhz=float(pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_SM)),
                memory_mhz=float(pynvml.nvmlDeviceGetClockInfo(device, pynvml.NVML_CLOCK_MEM)),
                celsius=float(pynvml.nvmlDeviceGetTemperature(device, pynvml.NVML_TEMPERATURE_GPU)),
            )
            for device in devices
        )
    except pynvml.NVMLError:
        return ()


def _text(name: str | bytes) -> str:
    """A device's name; older versions of the binding give bytes."""
    return name.decode(errors="replace") if isinstance(name, bytes) else name
