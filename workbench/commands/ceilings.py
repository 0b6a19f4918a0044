"""The commands that are arithmetic: ceiling, prefill, fit, split, latency, roofline."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from workbench.ceilings import batch, latency, levers, memory_fit, prefill, roofline, split
from workbench.ceilings.batch import Ceiling, Limit
from workbench.ceilings.box import Box, box_of
from workbench.ceilings.prefill import PrefillCeiling
from workbench.errors import SettingsError
from workbench.hardware.device import Device
from workbench.hardware.machine import THIS_MACHINE
from workbench.models.cache_types import CACHE_TYPE_BYTES
from workbench.models.model import Model, ModelKind
from workbench.models.resolve import resolve
from workbench.output import Format, note, print_json, print_records, print_table
from workbench.quantity import Origin, Quantity, Unit
from workbench.record import cells, format_cell_number, headings, written
from workbench.runs.measured_device import device_named
from workbench.tracks import hardware_named

CONTEXTS = (0, 4_096, 32_768)
BATCHES = (1, 4, 16, 64)
BATCH_CONTEXT = 4_096
HALF_PRECISION_BYTES = 2.0
GIVEN = "given on the command line"


def ceiling(options: argparse.Namespace) -> int:
    """Decode ceilings of one or more models, over context and batch."""
    models = [_model(name, options.dtype) for name in dict.fromkeys(options.models)]
    element_bytes = CACHE_TYPE_BYTES[options.kv_dtype]
    device = _device(options)
    boxes = [_box(options, device, model) for model in models]
    if options.levers:
        _print_levers(models, boxes, device, options)
        return 0
    places = _places(options.context, options.batch)
    found = [
        [batch.ceiling(model, t, b, element_bytes, box) for t, b in places]
        for model, box in zip(models, boxes, strict=True)
    ]
    if options.format is not Format.TABLE:
        print_records([record for records in found for record in records], options.format)
    else:
        _print_box(boxes, device, options.kv_dtype)
        if len(models) == 1:
            print(_label(models[0], options.dtype))
            _print_columns(found[0], places)
        else:
            _print_side_by_side([model.name for model in models], found, places)
    for model, records, box in zip(models, found, boxes, strict=True):
        _say_limits(model, records, box, options.format)
    if any(box.C is None for box in boxes) and any(b > 1 for _, b in places):
        note("No arithmetic rate is known here, so the bytes alone decide: --compute gives one.")
    return 0


def prefill_times(options: argparse.Namespace) -> int:
    """Prefill time, the clock that binds, and n* for each prompt length."""
    model, device = _model(options.model, options.dtype), _device(options)
    box, element_bytes = _box(options, device, model), CACHE_TYPE_BYTES[options.kv_dtype]
    found = [prefill.prefill_ceiling(model, n, element_bytes, box) for n in options.prompts]
    if options.format is Format.TABLE:
        _print_box([box], device, options.kv_dtype)
        print(_label(model, options.dtype))
    print_records(found, options.format, without=("model", "crossover_tokens"))
    if options.format is Format.TABLE:
        print(f"\n{_crossover_sentence(found[0])}")
    _say_context(model, max(options.prompts), options.format)
    _say_notes(model, options.format)
    return 0


def fit(options: argparse.Namespace) -> int:
    """Weights, caches and what is left of a memory."""
    model, device = _model(options.model, options.dtype), _device(options)
    box, element_bytes = _box(options, device, model), CACHE_TYPE_BYTES[options.kv_dtype]
    if box.M is None:
        raise SettingsError("No memory is known here. Give it in GB, as in --memory 24.")
    found = [memory_fit.fit(model, t, b, element_bytes, box.M) for t in options.context for b in options.batch]
    if options.format is Format.TABLE:
        memory = f"memory {box.M} [{box.M.origin}: {box.M.source}]"
        print(f"{_label(model, options.dtype)} · cache in {options.kv_dtype} · {memory}")
    print_records(found, options.format, without=("model",))
    if options.format is Format.TABLE:
        print("Engines add buffers of their own, and may reserve sliding layers' caches in full: neither is counted.")
    _say_context(model, max(options.context), options.format)
    _say_notes(model, options.format)
    return 0


def split_memories(options: argparse.Namespace) -> int:
    """A model's reads over two memories."""
    model, fast, must = _model(options.model, options.dtype), _fast_rate(options), None
    slow = _given("rate of the slower memory", options.slow * 1e9, Unit.BYTES_PER_SECOND, "B_slow")
    element_bytes = CACHE_TYPE_BYTES[options.kv_dtype]
    M = _memory_beside(options)
    if M is not None:
        must = split.share_that_must_be_slow(model, options.context, element_bytes, M)
    given = options.slow_share if must is None else sorted({*options.slow_share, must.value})
    found = [split.split(model, options.context, element_bytes, fast, slow, f) for f in given]
    if options.format is Format.TABLE:
        print(f"{_label(model, options.dtype)} · {options.context:,} tokens of context · fast {fast}, slow {slow}")
    print_records(found, options.format, without=("model", "context"))
    if must is not None:
        need = f"holds all but {must} of the bytes" if must.value else "holds all of it"
        _say(f"{M} of fast memory {need}; a mixture's experts are taken to be spread evenly.", options.format)
    if fast.value < slow.value:
        _say(f"The slower memory, {slow}, is the faster one: the two were given the other way round.", options.format)
    _say_context(model, options.context, options.format)
    _say_notes(model, options.format)
    return 0


def request_latency(options: argparse.Namespace) -> int:
    """TTFT, TPOT and both rates from stopwatch readings, and what one change does to each."""
    read = latency.Stopwatch(options.prompt_tokens, options.output_tokens, options.ttft, options.end, options.waited)
    found = latency.latency(read)
    changes = latency.changes(
        read, prompt=options.shorter_prompt, faster=options.faster_decode, cached=options.cached_prefix
    )
    match options.format:
        case Format.JSON:
            print_json({**cells(found), "changes": changes})
        case Format.CSV:
            print_records([found], Format.CSV)
        case _:
            figures = zip(headings(found).values(), cells(found).values(), strict=True)
            print_table(
                ("", "", "", ""),
                [(name, written(q), q.formula or q.source, q.name) for name, q in figures],
                left=(0, 2, 3),
            )
            if len(changes) > 1:
                print()
                print_records(changes, Format.TABLE)
    return 0


def roofline_points(options: argparse.Namespace) -> int:
    """The ridge, where decode steps and prefills stand under the roof, and the batch at the ridge."""
    device = _device(options)
    model = None if options.model is None else _model(options.model, options.dtype)
    box, element_bytes = _box(options, device, model), CACHE_TYPE_BYTES[options.kv_dtype]
    if box.C is None:
        raise SettingsError("No arithmetic rate is known here. Give it in TFLOP/s, as in --peak 100.")
    if model is not None and options.bytes_per_parameter is not None:
        raise SettingsError(
            f"{model.name} has bytes a parameter of its own. Leave --bytes-per-parameter out, or the model; --dtype "
            "holds the model's weights in another type."
        )
    if model is None and options.context:
        raise SettingsError("--context needs a model: weights alone have no cache. Name one, or leave it out.")
    found = roofline.roofline(
        model,
        box.C,
        box.B,
        batches=options.batch,
        prompts=options.prompts,
        t=options.context,
        element_bytes=element_bytes,
        bytes_per_parameter=None
        if model is not None
        else _given(
            "bytes a parameter",
            options.bytes_per_parameter or HALF_PRECISION_BYTES,
            Unit.BYTES,
            "bytes_per_parameter",
        ),
        M=box.M,
    )
    match options.format:
        case Format.JSON:
            print_json(found)
        case Format.CSV:
            print_records(found.points, Format.CSV)
        case _:
            _print_box([box], device, options.kv_dtype)
            if model is not None:
                print(f"{_label(model, options.dtype)} · {options.context:,} tokens of context")
            print_records(found.points, Format.TABLE)
            print()
            for sentence in roofline.sentences(found):
                print(sentence)
    if model is not None:
        _say_context(model, options.context, options.format)
        _say_notes(model, options.format)
    return 0


def _print_levers(
    models: Sequence[Model], boxes: Sequence[Box], device: Device | None, options: argparse.Namespace
) -> None:
    """A table of levers for each model; in JSON and CSV one list, each lever with the model and place it is for."""
    t, b = _one_place(options.context, options.batch)
    element_bytes = CACHE_TYPE_BYTES[options.kv_dtype]
    now = [batch.ceiling(model, t, b, element_bytes, box) for model, box in zip(models, boxes, strict=True)]
    found = [levers.levers(model, t, b, element_bytes, box) for model, box in zip(models, boxes, strict=True)]
    if options.format is Format.TABLE:
        _print_box(boxes, device, options.kv_dtype)
        for i, (model, here, of_model) in enumerate(zip(models, now, found, strict=True)):
            label, rate = _label(model, options.dtype), written(here.tokens_per_second_each)
            before = "\n" if i else ""
            print(f"{before}{label} · {t:,} tokens of context, batch {b:,} · ceiling {rate} tok/s")
            print_records(of_model, Format.TABLE)
    else:
        places = [{"model": model.name, "context": t, "batch": b} for model in models]
        records = [
            {**place, **cells(lever)} for place, of_model in zip(places, found, strict=True) for lever in of_model
        ]
        print_records(records, options.format)
    for model, here, box in zip(models, now, boxes, strict=True):
        _say_limits(model, [here], box, options.format)


def _print_columns(found: Sequence[Ceiling], places: Sequence[tuple[int, int]]) -> None:
    """One model in full: over context at the first batch, then over batch at each context that has several."""
    first, several = places[0][1], _contexts_of_several(places)
    contexts = [c for c in found if c.batch == first]
    if len(contexts) > 1 or not several:
        print_records(contexts, Format.TABLE, without=("model", "memory_bytes"))
    for context, _ in several:
        if len(contexts) > 1:
            print()
        print_records([c for c in found if c.context == context], Format.TABLE, without=("model", "memory_bytes"))


def _print_side_by_side(
    names: Sequence[str], found: Sequence[Sequence[Ceiling]], places: Sequence[tuple[int, int]]
) -> None:
    """Models beside each other: over context at the first batch, then over batch at each context that has several."""
    at = [{(c.context, c.batch): c for c in records} for records in found]
    first = places[0][1]
    print(f"batch {first:,}: ceiling of each sequence in tokens/s, and GB read a step")
    contexts = [t for t, b in places if b == first]
    _print_block("context", names, contexts, lambda i, t: _rate_and_bytes(at[i][t, first]))
    for context, batches in _contexts_of_several(places):
        print(f"\n{context:,} tokens in each sequence: ceiling of each / of all together, in tokens/s")
        of_context = [{b: c for (t, b), c in records.items() if t == context} for records in at]
        _print_block("batch", names, batches, partial(_batch_cell, of_context))


def _contexts_of_several(places: Sequence[tuple[int, int]]) -> list[tuple[int, list[int]]]:
    """Each context for which there are several batches, with them."""
    batches = {context: [b for t, b in places if t == context] for context, _ in places}
    return [(context, several) for context, several in batches.items() if len(several) > 1]


def _print_block(heading: str, names: Sequence[str], keys: Iterable[int], cell: Callable[[int, int], str]) -> None:
    print_table((heading, *names), [(f"{key:,}", *(cell(i, key) for i in range(len(names)))) for key in keys], left=())


def _batch_cell(found: Sequence[Mapping[int, Ceiling]], model: int, b: int) -> str:
    return _each_and_total(found[model][b])


def _rate_and_bytes(found: Ceiling) -> str:
    unfit = "!" if found.fits is False else ""
    return f"{unfit}{_tenths(found.tokens_per_second_each.value)}  {found.bytes_per_step.value / 1e9:>5.1f} GB"


def _each_and_total(found: Ceiling) -> str:
    unfit = "!" if found.fits is False else ""
    return f"{unfit}{_tenths(found.tokens_per_second_each.value)} / {found.tokens_per_second_total.value:>5,.0f}"


def _tenths(rate: float) -> str:
    return f"{rate:,.1f}" if rate >= 1 else format_cell_number(rate)


def _places(contexts: Sequence[int] | None, batches: Sequence[int] | None) -> list[tuple[int, int]]:
    """Contexts at batch 1 and batches at one context where neither is given; every pair of those that are."""
    if contexts is None and batches is None:
        at_one = [(t, 1) for t in CONTEXTS]
        return at_one + [(BATCH_CONTEXT, b) for b in BATCHES if (BATCH_CONTEXT, b) not in at_one]
    return [(t, b) for t in contexts or (BATCH_CONTEXT,) for b in batches or (1,)]


def _one_place(contexts: Sequence[int] | None, batches: Sequence[int] | None) -> tuple[int, int]:
    """The context and batch that levers are for; raises SettingsError for several."""
    places = [(t, b) for t in contexts or (BATCH_CONTEXT,) for b in batches or (1,)]
    if len(places) > 1:
        raise SettingsError(
            "Levers are for one context and one batch: give one of each, as in --context 4096 --batch 1."
        )
    return places[0]


def _model(name: str, dtype: str | None) -> Model:
    model = resolve(name)
    return model if dtype is None else model.in_dtype(dtype)


def _device(options: argparse.Namespace) -> Device | None:
    """The device or track named; this machine where no rate was given instead, None where one was."""
    if options.hardware is not None:
        return hardware_named(options.hardware)
    return None if options.bandwidth is not None else device_named(THIS_MACHINE)


def _box(options: argparse.Namespace, device: Device | None, model: Model | None) -> Box:
    """What was given on the command line, and the device's figures for the rest."""
    B, C, M = options.bandwidth, options.compute, options.memory
    box = Box(_given("bandwidth", B * 1e9, Unit.BYTES_PER_SECOND, "B")) if device is None else box_of(device, model)
    return Box(
        B=box.B if B is None else _given("bandwidth", B * 1e9, Unit.BYTES_PER_SECOND, "B"),
        C=box.C if C is None else _given("arithmetic rate", C * 1e12, Unit.FLOP_PER_SECOND, "C"),
        M=box.M if M is None else _given("memory", M * 1e9, Unit.BYTES, "M"),
    )


def _given(name: str, value: float, unit: Unit, symbol: str) -> Quantity:
    return Quantity(name, value, unit, Origin.ASSUMED, symbol, source=GIVEN)


def _label(model: Model, dtype: str | None) -> str:
    held = "" if dtype in (None, model.quantisation) else f", held in {dtype}"
    return f"{model.name} · {model.architecture} · {model.quantisation}{held}"


def _print_box(boxes: Sequence[Box], device: Device | None, kv_dtype: str) -> None:
    """The figures that the tables rest on, each with its origin and source."""
    if device is not None:
        print(device.title)
    for figure in dict.fromkeys(figure for box in boxes for figure in (box.B, box.C, box.M) if figure is not None):
        print(f"  {figure.symbol} {figure} [{figure.origin}: {figure.source or figure.formula}]")
    if device is not None and device.measured_read is not None:
        print(f"  reads of {device.measured_read} have been measured [{device.measured_read.source}]")
    print(f"  cache in {kv_dtype}\n")


def _crossover_sentence(found: PrefillCeiling) -> str:
    if found.crossover_tokens is None and found.arithmetic_seconds is not None:
        return "The bytes take longer than the arithmetic at every prompt length here: there is no n*."
    if found.crossover_tokens is None:
        return "No arithmetic rate is known here, so the bytes alone decide: give --compute for the other clock and n*."
    N = next(figure for figure in found.crossover_tokens.inputs if figure.symbol == "N")
    return (
        f"n* = {found.crossover_tokens.formula} = {found.crossover_tokens}, where N = {N} leaves the output head out: "
        "there arithmetic overtakes fetching the weights. Attention and the head bring it a little earlier."
    )


def _fast_rate(options: argparse.Namespace) -> Quantity:
    """B of the fast memory: given, or the named device's."""
    if options.fast is not None:
        return _given("rate of the fast memory", options.fast * 1e9, Unit.BYTES_PER_SECOND, "B_fast")
    if options.hardware is None:
        raise SettingsError("The fast memory's rate is missing: give --fast in GB/s, or --hardware with a device.")
    return replace(hardware_named(options.hardware).bandwidth, symbol="B_fast")


def _memory_beside(options: argparse.Namespace) -> Quantity | None:
    """M of the fast memory: given, or the named device's; None where neither was."""
    if options.memory is not None:
        return _given("fast memory", options.memory * 1e9, Unit.BYTES, "M")
    return None if options.hardware is None else hardware_named(options.hardware).memory


def _say(text: str, chosen: Format) -> None:
    """A line under a table; in JSON and CSV, which stand alone on standard output, beside them."""
    print(f"! {text}") if chosen is Format.TABLE else note(text)


def _say_context(model: Model, longest: int, chosen: Format) -> None:
    if model.context_limit is not None and longest > model.context_limit:
        _say(f"{model.name} was made for contexts of up to {model.context_limit:,} tokens.", chosen)


def _say_limits(model: Model, found: Sequence[Ceiling], box: Box, chosen: Format) -> None:
    """What a person must know of a table: what does not fit, what is past the model's context, what is not modelled."""
    unfit = [c for c in found if c.bound is Limit.MEMORY]
    if unfit:
        least = min(unfit, key=lambda c: c.memory_needed_bytes.value)
        at = f"batch {least.batch:,} at {least.context:,} tokens"
        all_of_them = len(unfit) == len(found)
        which = f": even {at} needs" if all_of_them else f" from {at} on, which needs"
        _say(f"{model.name} does not fit in {box.M}{which} {least.memory_needed_bytes}.", chosen)
    _say_context(model, max(c.context for c in found), chosen)
    _say_notes(model, chosen)


def _say_notes(model: Model, chosen: Format) -> None:
    """What isn't modelled of it; a preset's notes are on where its figures come from, and `presets NAME` shows them."""
    for sentence in () if model.kind is ModelKind.PRESET else model.notes:
        _say(f"{model.name}: {sentence}", chosen)
