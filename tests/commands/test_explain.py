"""`workbench runs explain` and `workbench gap --perturb` inside the test's process."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.commands.conftest import Workbench
from tests.fakes import a_row, fake_load
from tests.runs.test_symptoms import the_texts_requests, the_texts_steps
from workbench.runs.row import BATCH, PREFILL_DECODE, Row
from workbench.runs.run import Run, RunStatus
from workbench.runs.samples import Samples
from workbench.runs.store import Store
from workbench.runs.symptoms import SYMPTOMS


def keep(run_id: str, kind: str, rows: Sequence[Row]) -> None:
    with Store() as store:
        store.add_run(Run(run_id, kind, "2026-01-01T00:00:00Z", "qwen3-0.6b", "a box"))
        for row in rows:
            store.add_row(replace(row, run_id=run_id), Samples())
        store.end_run(run_id, RunStatus.FINISHED)


@pytest.fixture
def texts_runs() -> None:
    keep("requests", PREFILL_DECODE, the_texts_requests())
    keep("steps", BATCH, the_texts_steps())


@pytest.mark.usefixtures("texts_runs")
def test_the_last_run_is_explained_alone_and_two_runs_together(workbench: Workbench) -> None:
    last = workbench("runs", "explain", "--format", "json")
    assert last.code == 0
    verdicts = {line["symptom"]: line["verdict"] for line in last.json}
    assert len(verdicts) == len(SYMPTOMS)
    assert verdicts["each sequence slows as others join"] == "present"
    assert verdicts["the context costs more than its bytes"] == "can't tell"
    both = workbench("runs", "explain", "requests", "steps", "--format", "csv")
    together = {line["symptom"]: line for line in both.csv}
    assert {line["verdict"] for line in together.values()} == {"present", "absent", "can't tell"}
    slows = together["later tokens slow down as the context grows"]
    assert slows["verdict"] == "present"
    assert float(slows["times"]) == pytest.approx(165.7 / 87.6)
    assert "a shorter context" in slows["acts"]


@pytest.mark.usefixtures("texts_runs")
def test_the_table_has_the_verdicts_and_the_sentences_stand_below(workbench: Workbench) -> None:
    ended = workbench("runs", "explain", "requests")
    assert ended.line("later tokens slow down")[1:4] == ["decode, cache reads", "present", "1.89 ×"]
    assert ended.line("later tokens slow down")[-1] == "≥ 1.25"
    assert ended.line("later tokens take as long")[-1] == "< 1.25"
    assert "  acts on it: a shorter context; a quantised cache" in ended.out
    assert ended.out.count("workbench batch MODEL") == 1


def test_a_run_that_measured_nothing_says_why_once_and_lists_no_symptoms(workbench: Workbench) -> None:
    failed = {"status": "failed: the engine ran out of memory", "ttft_ms": None, "tpot_ms": None}
    rows = [a_row(prompt_tokens=n, **failed) for n in (64, 1024)]
    keep("failed", PREFILL_DECODE, rows)
    said = "prompt 64; prompt 1,024: failed: the engine ran out of memory"
    ended = workbench("runs", "explain", "failed")
    assert (ended.code, ended.out.count("\n")) == (0, 2)
    assert ended.out.endswith(f"{said}\n")
    as_json = workbench("runs", "explain", "failed", "--format", "json")
    assert (as_json.json, as_json.err) == ([], f"{said}\n")


@pytest.mark.usefixtures("texts_runs")
def test_a_failed_point_among_measured_ones_is_told_before_the_symptoms(workbench: Workbench) -> None:
    keep("some", PREFILL_DECODE, [*the_texts_requests(), a_row(prompt_tokens=8192, status="failed: too long")])
    ended = workbench("runs", "explain", "some")
    assert ended.out.splitlines()[1] == "prompt 8,192: failed: too long"
    assert ended.out.count("too long") == 1
    assert "later tokens slow down" in ended.out


@pytest.mark.usefixtures("texts_runs")
def test_runs_that_differ_and_runs_without_rows_are_refused(workbench: Workbench) -> None:
    keep("other", PREFILL_DECODE, [replace(row, dtype="bfloat16") for row in the_texts_requests()])
    refused = workbench("runs", "explain", "requests", "other")
    assert (refused.code, refused.out) == (2, "")
    assert "differ in dtype: float32 and bfloat16" in refused.err
    keep("empty", PREFILL_DECODE, [])
    assert "nothing to explain" in workbench("runs", "explain", "empty").err


@pytest.mark.parametrize("chosen", ["table", "json", "csv"])
def test_a_perturbation_prints_both_sweeps_and_reads_them(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    monkeypatch.setattr("workbench.headless.load_transformers", fake_load())
    ended = workbench("gap", "smollm2-135m", "--perturb", "--context", "8", "--device", "cpu", "--format", chosen)
    assert ended.code == 0, ended.err
    with Store() as store:
        assert sorted((run.kind, run.rows) for run in store.runs()) == [(BATCH, 5), (PREFILL_DECODE, 4)]
    match chosen:
        case "json":
            assert len(ended.json["rows"]) == 9
            assert [sentence["varied"] for sentence in ended.json["reading"]][:2] == ["prompt", "sequences"]
            ttft_ms = [row["ttft_median_ms"] for row in ended.json["rows"][:4]]
            assert ended.json["reading"][0]["ttft_growth"] == pytest.approx(ttft_ms[-1] / ttft_ms[0])
        case "csv":
            assert [line["kind"] for line in ended.csv] == [PREFILL_DECODE] * 4 + [BATCH] * 5
            assert "with a prompt of 1,024 instead of 16" in ended.err
            assert "workbench runs explain 2" in ended.err
        case _:
            assert ended.out.index("TTFT") < ended.out.index("context")
            assert "prompt: with a prompt of 1,024 instead of 16" in ended.out
            assert "sequences: with 16 sequences of 8 tokens instead of 1" in ended.out
