"""A plan in words: what one token reads, what memory it takes, and how long the sweep is."""

from workbench.errors import MemoryRefused
from workbench.experiments.engine_settings import TRANSFORMERS
from workbench.experiments.plan import Plan, check_before_loading
from workbench.quantity import Unit, format_duration, format_number, format_value

LABEL_WIDTH = 12


def plan_lines(planned: Plan) -> list[str]:
    """The model as it will be resident, and the memory of the sweep, one figure a line."""
    model, need, settings = planned.resident, planned.need, planned.settings
    if not settings.is_told:
        return [f"whatever {settings.endpoint.url} serves", "name a model for its ceiling"]
    k = round((model.kv_elements_read(1) - model.kv_elements_read(0)) * settings.element_bytes)
    stored = "none: a preset" if planned.model.file_bytes is None else _bytes(planned.model.file_bytes)
    longest = max(planned.settings.prompts) + planned.settings.new_tokens
    lines = [
        f"{model.name} · {model.architecture} · {planned.model.quantisation}",
        f"{settings.form if settings.engine == TRANSFORMERS else settings.engine}, {planned.weights} weights",
        "",
        _line("reads W", f"{_bytes(model.read_bytes_per_token)} per token"),
        _line("reads k", f"{_bytes(k)} per cached token"),
        _line("N", f"{format_number(model.read_parameters / 1e6)} M parameters"),
        _line("resident", _bytes(model.resident_bytes)),
        _line("file", stored),
    ]
    if model.experts:
        lines.append(_line("experts", f"{model.experts_used} of {model.experts} a token"))
    lines += [
        "",
        _line("weights", _bytes(need.weights)),
        _line("cache", f"{_bytes(need.cache)} at {longest:,} tokens"),
        _line("activations", _bytes(need.working)),
        _line("engine", _bytes(need.engine)),
        _line("needs", f"{_bytes(need.total)} of {_bytes(planned.available)} free"),
    ]
    return [*lines, *(f"note: {note}" for note in planned.model.notes)]


def run_line(planned: Plan | None, timing_s: float = 0.0) -> tuple[str, str]:
    """What `r` does, with about the seconds that operations are timed before, or why it is refused."""
    if planned is None:
        return "", ""
    try:
        check_before_loading(planned)
    except MemoryRefused as refused:
        return "", str(refused)
    return f"r runs this sweep, about {format_duration(planned.seconds + timing_s)}", ""


def _line(label: str, value: str) -> str:
    return f"{label:<{LABEL_WIDTH}}{value}"


def _bytes(count: int) -> str:
    return format_value(count, Unit.BYTES)
