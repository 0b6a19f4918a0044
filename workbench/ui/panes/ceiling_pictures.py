"""The Ceiling pane's two charts: how the cache grows beside the weights, and the roofline."""

import math

from workbench.ceilings.overview import Growth
from workbench.ceilings.roofline import Roofline, attainable
from workbench.quantity import Unit, arithmetic
from workbench.ui.widgets.chart import Drawn, Picture, Series

_BYTE_SCALES = ((1e9, "GB"), (1e6, "MB"))
_FLOP_SCALES = ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"))


def growth_picture(growth: Growth) -> tuple[str, Picture]:
    """Title and picture: cache and weights in bytes over context."""
    scale, unit = _scale(max(*growth.cache_bytes, growth.weight_bytes), _BYTE_SCALES)
    contexts = tuple(float(context) for context in growth.contexts)
    return f"{unit} over context", Picture(
        x_ticks=contexts,
        series=(
            Series("weights", Drawn.LINE, tuple((x, growth.weight_bytes / scale) for x in contexts)),
            Series(
                "cache", Drawn.POINTS, tuple((x, y / scale) for x, y in zip(contexts, growth.cache_bytes, strict=True))
            ),
        ),
    )


def roof_picture(roof: Roofline) -> tuple[str, Picture]:
    """Title and picture: the roof, and decode steps and prefills at their intensities under it, both axes in logs."""
    C, B = roof.peak_flop_per_second, roof.bandwidth_bytes_per_second
    scale, unit = _scale(C.value, _FLOP_SCALES)
    ridge = roof.ridge_flop_per_byte.value
    intensities = [ridge, *(point.intensity.value for point in roof.points if point.intensity.value > 0)]
    low, high = math.floor(math.log2(min(intensities))), math.ceil(math.log2(max(intensities)))
    ticks = tuple(2.0**power for power in range(low, high + 1))

    def reach(x: float) -> tuple[float, float]:
        return x, attainable(arithmetic("intensity", x, Unit.FLOP_PER_BYTE), C, B).value / scale

    def reached(work: str) -> tuple[tuple[float, float], ...]:
        return tuple(reach(point.intensity.value) for point in roof.points if point.work == work)

    return f"roofline, {unit} over FLOP/byte", Picture(
        x_ticks=ticks,
        series=(
            Series("roof", Drawn.LINE, tuple(reach(x) for x in sorted({*ticks, ridge}))),
            Series("decode", Drawn.POINTS, reached("decode")),
            Series("prefill", Drawn.POINTS, reached("prefill")),
        ),
        log_y=True,
    )


def _scale(value: float, scales: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    return next((found for found in scales if value >= found[0]), scales[-1])
