"""Imported results as runs and rows: labels, figures, ceilings, and what can't be a measurement."""

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.models.files import smollm2
from tests.runs.importers.recordings import OLD_CSV, OLD_MARKDOWN, RECORDED, recording
from workbench.ceilings import decode, prefill
from workbench.errors import ImportRefused, ModelError, SettingsError
from workbench.experiments.settings import SweepSettings
from workbench.experiments.sittings import kept_settings
from workbench.hardware.devices import device
from workbench.models.resolve import resolve
from workbench.runs.cell import cell, quantity
from workbench.runs.importers.importing import import_file, runs_of, words
from workbench.runs.importers.reading import found_in
from workbench.runs.importers.rows import SampledRow
from workbench.runs.importers.standing import Standing, standing
from workbench.runs.labels import point_words
from workbench.runs.row import Row
from workbench.runs.run import Run, RunStatus
from workbench.runs.store import Store

SOURCE = {"file": "results", "form": "a form", "sha256": "0"}
MOMENT = "2026-11-30T00:00:00Z"
HARDWARE = "rtx-5090"


def imported(text: str, under: Standing | None = None) -> list[tuple[Run, list[SampledRow]]]:
    return runs_of(found_in(text.encode(), "results"), under or Standing(), SOURCE, MOMENT)


def rows_of(text: str, under: Standing | None = None) -> list[Row]:
    return [row for _, rows in imported(text, under) for row, _ in rows]


def result(**changed: Any) -> dict[str, Any]:
    """A result of llama-bench: a prefill of 512 tokens in half a second, three times."""
    values = {"model_filename": "a.gguf", "n_prompt": 512, "n_gen": 0, "avg_ns": 5e8, "samples_ns": [5e8, 4e8, 6e8]}
    return values | changed


def one_row(**changed: Any) -> Row:
    [row] = rows_of(json.dumps([result(**changed)]))
    return row


def test_best_and_median_are_of_the_samples_and_the_rate_of_the_best() -> None:
    recorded = json.loads(recording("llama-bench.json"))
    [(run, rows)] = imported(recording("llama-bench.json"))
    prefilled, decoded = rows[1], rows[2]
    seconds = [ns / 1e9 for ns in recorded[1]["samples_ns"]]
    assert prefilled[0].ttft_ms == pytest.approx(min(seconds) * 1e3)
    assert prefilled[0].ttft_median_ms == pytest.approx(median(seconds) * 1e3)
    assert prefilled[0].prompt_tokens_per_s == pytest.approx(128 / min(seconds))
    assert prefilled[0].tpot_ms is None
    assert prefilled[1].ttft_s == pytest.approx(seconds)
    assert prefilled[0].judgement == "noisy"
    steps = [ns / 16e9 for ns in recorded[2]["samples_ns"]]
    assert decoded[0].decode_tokens_per_s == pytest.approx(1 / min(steps))
    assert decoded[1].tpot_s == pytest.approx(steps)
    assert decoded[0].repeats == 3
    assert run.started_at == "2026-11-29T12:45:25Z"


def test_the_spread_of_the_file_is_never_taken() -> None:
    honest = one_row()
    lying = one_row(stddev_ns=1, stddev_ts=0.0)
    assert (lying.ttft_low_ms, lying.ttft_high_ms) == (honest.ttft_low_ms, honest.ttft_high_ms)
    without = one_row(samples_ns=[], stddev_ns=1)
    assert (without.ttft_ms, without.ttft_median_ms, without.ttft_low_ms) == (500.0, None, None)
    assert "a mean, as the file has no samples" in without.flags
    assert "avg_ns is not the mean of the file's samples" in one_row(avg_ns=7e8).flags


@pytest.mark.parametrize(
    ("changed", "doubt"),
    [
        ({"avg_ns": -1}, "avg_ns is -1; it must be above zero, and finite; the samples are taken"),
        ({"avg_ts": float("nan")}, "avg_ts is nan"),
        ({"avg_ns": None, "avg_ts": 2000.0}, "avg_ts is not the mean of the file's samples"),
        ({"samples_ts": [1024, 1280, 1.0]}, "samples_ts are not the rates of samples_ns"),
        ({"samples_ts": [1024]}, "samples_ts are not the rates of samples_ns"),
        ({"avg_ts": 1052.4, "samples_ts": [1024, 1280, 853.3]}, ""),
    ],
)
def test_samples_are_taken_before_the_file_s_own_means_and_what_disagrees_is_told(
    changed: Mapping[str, Any], doubt: str
) -> None:
    row = one_row(**changed)
    assert (row.status, row.ttft_ms, row.ttft_median_ms) == ("ok", 400.0, 500.0)
    assert doubt in row.flags
    assert doubt or "samples" not in row.flags


def test_the_order_of_columns_makes_no_run_of_its_own() -> None:
    first = result(n_threads=2, n_ubatch=512, type_k="f16")
    second = dict(reversed((first | {"stddev_ns": 1}).items()))
    assert [len(rows) for _, rows in imported(json.dumps([first, second]))] == [2]


def test_labels_are_what_the_file_says() -> None:
    row = rows_of(OLD_CSV)[0]
    assert (row.engine, row.engine_version) == ("llama.cpp", "b1275 (3469684)")
    assert (row.model, row.architecture, row.quantisation) == ("ggml-model-q4_0", "llama", "Q4_0")
    assert (row.dtype, row.device, row.threads, row.weights) == ("f16 cache", "cuda", 16, "real")
    assert row.machine == "13th Gen Intel(R) Core(TM) i9-13900K · NVIDIA GeForce RTX 3090 Ti"
    assert row.flags.startswith("imported from llama-bench")
    offloaded = rows_of(OLD_MARKDOWN)[0]
    assert "10 layers offloaded to cuda" in offloaded.flags
    assert (offloaded.machine, offloaded.threads) == ("not told", 0)
    assert one_row(type_k="q8_0", type_v="f16").dtype == "q8_0/f16 cache"
    assert one_row(model_filename="C:\\models\\x\x1b[2J.gguf").model == "x [2J"


def test_a_prefill_and_the_steps_after_as_many_tokens_are_one_row() -> None:
    steps = result(n_prompt=0, n_gen=128, n_depth=512, samples_ns=[1.28e9, 1.28e9], avg_ns=1.28e9)
    [row] = rows_of(json.dumps([result(), steps]))
    assert (row.prompt_tokens, row.new_tokens, row.context_tokens) == (512, 129, 512 + 64)
    assert row.ttft_ms == pytest.approx(400)
    assert row.tpot_ms == pytest.approx(10)


@pytest.mark.parametrize(
    ("n_prompt", "n_gen", "n_depth", "point"),
    [
        (0, 128, 0, (1, 128, 65)),
        (0, 128, 256, (256, 129, 256 + 64)),
        (512, 0, 256, (512, 1, 768)),
    ],
)
def test_tests_that_are_not_one_request_stay_rows_of_their_own(
    n_prompt: int, n_gen: int, n_depth: int, point: tuple[int, int, int]
) -> None:
    other = result(n_prompt=n_prompt, n_gen=n_gen, n_depth=n_depth)
    rows = rows_of(json.dumps([result(), other]))
    assert len(rows) == 2
    assert (rows[1].prompt_tokens, rows[1].new_tokens, rows[1].context_tokens) == point
    assert (rows[1].ttft_ms is None) is (n_prompt == 0)


def test_of_two_tests_that_could_be_the_rest_of_a_request_neither_is_taken() -> None:
    steps = [result(n_prompt=0, n_gen=k, n_depth=512) for k in (16, 32)]
    assert len(rows_of(json.dumps([result(), *steps]))) == 3


def test_prefill_and_steps_timed_as_one_are_not_told_apart() -> None:
    row = one_row(n_gen=128)
    assert row.status.startswith("not told apart: prefill and 128 steps were timed as one")
    assert (row.ttft_ms, row.tpot_ms) == (None, None)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"samples_ns": [5e8, 0, 6e8]}, "must be above zero"),
        ({"samples_ns": [5e8, -1]}, "must be above zero"),
        ({"samples_ns": [float("nan")]}, "must be above zero"),
        ({"samples_ns": ["fast"]}, "is fast, which is no number"),
        ({"samples_ns": [], "avg_ns": 0}, "avg_ns is 0"),
        ({"samples_ns": [], "avg_ns": None, "avg_ts": float("inf")}, "avg_ts is inf"),
        ({"samples_ns": [], "avg_ns": None}, "neither its time nor its rate"),
        ({"samples_ns": [1]}, "512 tokens in 1e-09 s can't be"),
        ({"samples_ns": [1e30]}, "can't be"),
        ({"avg_ts": 1.0}, "its time says 0.5 s and its rate 512 s"),
        ({"n_prompt": -5}, "n_prompt is -5"),
        ({"n_prompt": 10**12}, "n_prompt is 1000000000000"),
        ({"n_prompt": 0}, "no prompt and no steps"),
    ],
)
def test_what_can_not_be_a_measurement_is_a_failed_row(changed: Mapping[str, Any], reason: str) -> None:
    row = one_row(**changed)
    assert row.status.startswith("failed: ")
    assert reason in row.status
    assert (row.ttft_ms, row.prompt_tokens_per_s, row.judgement) == (None, None, None)


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"samples_ns": ["fast"]}, "512"),
        ({"n_gen": "many"}, "512"),
        ({"n_prompt": "long"}, "–"),
        ({"n_prompt": 0, "n_gen": 0}, "–"),
        ({"n_prompt": 0, "n_gen": 128, "samples_ns": ["fast"]}, "–"),
        ({"n_prompt": 0, "n_gen": 128, "n_depth": 64, "samples_ns": ["fast"]}, "64"),
    ],
)
def test_a_failed_row_has_the_prompt_that_was_asked_for_or_none(changed: Mapping[str, Any], shown: str) -> None:
    row = one_row(**changed)
    assert row.status.startswith("failed: ")
    assert cell(row, "prompt_tokens") == shown
    assert (quantity(row, "prompt_tokens") is None) == (shown == "–")
    assert point_words(row) == f"prompt {shown}"


def test_a_run_without_a_prompt_that_is_told_can_be_asked_for_again() -> None:
    found = found_in(json.dumps([result(n_prompt="long")]).encode(), "results")
    [(run, _)] = runs_of(found, Standing(), SOURCE, MOMENT)
    assert run.settings["prompts"] == list(SweepSettings.prompts)


def test_a_result_that_says_nothing_of_its_test_is_left_out_and_told() -> None:
    lacking = {name: value for name, value in result().items() if name != "n_prompt"} | {"avg_ts": 1.0}
    without = {name: value for name, value in lacking.items() if name != "n_gen"}
    found = found_in(json.dumps([result(), without | {"n_threads": 2}]).encode(), "results")
    assert len(runs_of(found, Standing(), SOURCE, MOMENT)) == 1
    assert any("doesn't say what was measured" in note for note in found.notes)
    with pytest.raises(ImportRefused, match="no line says what was measured"):
        rows_of(json.dumps([without | {"n_threads": 2}]))


def test_each_set_of_settings_is_a_run_and_its_note_says_what_differs() -> None:
    runs = imported(json.dumps([result(n_threads=n, n_ubatch=512, stddev_ns=i) for i, n in enumerate((1, 2, 1))]))
    assert [len(rows) for _, rows in runs] == [2, 1]
    assert [run.note.split("; ")[1] for run, _ in runs] == ["n_threads 1", "n_threads 2"]


def test_rows_stand_under_the_ceiling_of_the_model_and_hardware_named() -> None:
    model, named = resolve(str(smollm2())), device(HARDWARE)
    rows = rows_of(recording("llama-bench.json"), standing(str(smollm2()), HARDWARE))
    steps = rows[2]
    moved = decode.bytes_per_step(model, steps.context_tokens, 2.0).value
    assert steps.bytes_per_step == int(moved)
    assert steps.ceiling_tokens_per_s == pytest.approx(named.bandwidth.value / moved)
    assert steps.ceiling_share == pytest.approx((steps.decode_tokens_per_s or 0) * moved / named.bandwidth.value)
    assert steps.ceiling_basis is not None
    assert steps.ceiling_basis.startswith("vendor")
    assert steps.quantisation == model.quantisation
    assert (rows[1].prefill_flop, rows[1].track) == (int(prefill.flop(model, 128).value), "N")
    after = rows[4]
    attention = prefill.attention_flop(model, 640) - prefill.attention_flop(model, 512)
    assert after.attention_flop == attention
    assert "prefilled after 512 tokens" in after.flags


def test_a_quantised_cache_is_read_in_its_own_bytes() -> None:
    under = standing(str(smollm2()), HARDWARE)
    wide, narrow = (
        rows_of(json.dumps([result(n_prompt=0, n_gen=16, n_depth=4096, type_k=k, type_v=k)]), under)[0].cache_bytes or 0
        for k in ("f16", "q8_0")
    )
    assert narrow / wide == pytest.approx(34 / 64, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "hardware", "reason"),
    [
        (None, None, "no model was named, and no hardware was named"),
        (None, HARDWARE, "no model was named"),
        ("SMOLLM2", None, "no hardware was named"),
        ("qwen3-0.6b", HARDWARE, "the file's model has 134,515,008 parameters"),
        ("smollm2-135m", HARDWARE, "name the model as it was quantised"),
        ("SMOLLM2", "this machine", "has not been probed"),
    ],
)
def test_rows_without_a_ceiling_say_why(model: str | None, hardware: str | None, reason: str) -> None:
    named = str(smollm2()) if model == "SMOLLM2" else model
    for row in rows_of(recording("llama-bench.json"), standing(named, hardware)):
        assert (row.ceiling_tokens_per_s, row.ceiling_share) == (None, None)
        assert reason in row.flags
        assert reason in (row.ceiling_basis or "")


def test_batches_are_rows_of_a_batch_run_whose_shared_prompt_is_read_once() -> None:
    under = standing(str(smollm2()), HARDWARE)
    [(run, rows)] = imported(recording("batched-bench.jsonl"), under)
    row = rows[3][0]
    assert (run.kind, row.prompt_tokens, row.context_tokens, row.batch) == ("batch", 64, 72, 8)
    assert row.step_ms == pytest.approx(0.521316e3 / 16, rel=1e-4)
    assert row.total_tokens_per_s == pytest.approx(245.532471)
    assert row.prefill_ms == pytest.approx(1395.971, rel=1e-3)
    table = rows_of(recording("batched-bench.txt"), under)[3]
    assert table.step_ms == pytest.approx(8 / 246.70 * 1e3)
    lines = [json.loads(line) for line in recording("batched-bench.jsonl").split("\n") if line.strip()]
    shared = [{**line, "is_pp_shared": 1, "n_kv": 64 + 16 * line["pl"], "t_pp": 0.2, "speed_pp": 320} for line in lines]
    together = rows_of("\n".join(map(json.dumps, shared)), under)[3]
    model = resolve(str(smollm2()))
    k = model.kv_elements_read(1) * 2
    assert (row.cache_bytes or 0) - (together.cache_bytes or 0) == 7 * 64 * k


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"t_tg": 0}, "must be above zero"),
        ({"t_tg": 9.0}, "t_tg is 9 s, and speed_tg says"),
        ({"n_kv": 7}, "n_kv is 7"),
        ({"pl": 0}, "0 sequences"),
        ({"tg": "many"}, "tg is many"),
        ({"is_tg_separate": 1}, "decoded apart"),
    ],
)
def test_batches_that_can_not_be_are_failed_rows(changed: Mapping[str, Any], reason: str) -> None:
    line = json.loads(recording("batched-bench.jsonl").split("\n")[3])
    [row] = rows_of(json.dumps({**line, **changed}))
    assert reason in row.status
    assert row.step_ms is None
    assert row.prompt_tokens == line["pp"]


def test_a_run_is_kept_whole_and_the_same_file_is_not_doubled_unless_asked() -> None:
    path = RECORDED / "llama-bench.json"
    with Store() as store:
        first = import_file(store, path, Standing())
        again = import_file(store, path, Standing())
        assert (again.runs, [run.run_id for run in again.already]) == ((), [run.run_id for run in first.runs])
        assert "already imported" in next(iter(words(again)))
        assert len(store.runs()) == 1
        assert len(import_file(store, path, Standing(), again=True).runs) == 1
        run = store.run(first.runs[0].run_id)
        assert (run.status, run.rows, len(run.points)) == (RunStatus.FINISHED, 6, 6)
        assert run.settings["imported"]["file"] == "llama-bench.json"
        assert len(store.rows_with_samples(run.run_id)[0][1].ttft_s) == 3
        assert kept_settings(run).dtype == "f16 cache"


@pytest.mark.parametrize(
    "written",
    [
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: b"ggml_cuda_init: found 1 device\n" + text,
        gzip.compress,
    ],
)
def test_the_same_results_written_otherwise_are_known_again(tmp_path: Path, written: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "again.json"
    path.write_bytes(written(recording("llama-bench.json").encode()))
    with Store() as store:
        import_file(store, RECORDED / "llama-bench.json", Standing())
        assert import_file(store, path, Standing()).runs == ()
        assert len(store.runs()) == 1


def test_rows_that_were_imported_before_are_told(tmp_path: Path) -> None:
    lines = recording("llama-bench.jsonl")
    path = tmp_path / "grown.jsonl"
    path.write_text(lines + lines.replace("2026-11-29", "2026-11-30"))
    with Store() as store:
        [run] = import_file(store, RECORDED / "llama-bench.jsonl", Standing()).runs
        grown = import_file(store, path, Standing())
        assert grown.rows == 12
        assert f"6 of its rows are in {run.run_id} already, from llama-bench.jsonl" in grown.notes[-1]
        other = import_file(store, RECORDED / "llama-bench.md", Standing())
        assert other.notes == ()


def test_names_that_are_not_known_are_refused_before_the_file_is_read() -> None:
    with pytest.raises(ModelError, match="Did you mean"):
        standing("qwen3-0.6", None)
    with pytest.raises(SettingsError, match="Did you mean"):
        standing(None, "rtx-509")


def test_too_many_sets_of_settings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(result(n_ubatch=n)) + "\n" for n in range(1001)))
    with Store() as store:
        with pytest.raises(ImportRefused, match="1,001 different sets of settings"):
            import_file(store, path, Standing())
        assert store.runs() == []


def test_what_its_file_gives_no_date_says_that_it_has_that_of_the_import() -> None:
    words = "so started is when it was imported"
    [(run, [(row, _)])] = imported(json.dumps([result()]))
    assert (run.started_at, row.started_at) == (MOMENT, MOMENT)
    assert words in run.note
    assert words in row.flags
    [(dated, [(row, _)])] = imported(json.dumps([result(test_time="2026-11-29T12:45:25Z")]))
    assert dated.started_at == "2026-11-29T12:45:25Z"
    assert words not in dated.note + row.flags


def test_rows_say_what_lay_in_the_cache_before_them() -> None:
    tests = [result(), result(n_depth=64), result(n_prompt=0, n_gen=16), result(n_prompt=0, n_gen=16, n_depth=64)]
    rows = rows_of(json.dumps(tests))
    assert [(row.depth_tokens, row.is_steps_alone) for row in rows] == [(0, False), (64, False), (0, True), (64, True)]
    assert [cell(row, "prompt_tokens") for row in rows] == ["512", "512", "–", "–"]
