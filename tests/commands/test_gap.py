"""`workbench gap` and its kept runs, on an engine whose parts take known times."""

from pathlib import Path

import pytest

from tests.commands.conftest import Workbench
from tests.fakes import FAKE_PARTS_S, fake_load
from workbench.experiments.gap import gap as gap_experiment
from workbench.experiments.gap import ladder as ladder_arithmetic
from workbench.experiments.gap.parts import Part
from workbench.runs.ladder import BELOW_QUIET, BELOW_VENDOR, OTHER_LOAD, SPLIT_MEMORY
from workbench.runs.store import Store

GAP = ("gap", "smollm2-135m", "--seconds", "0.001", "--device", "cpu")
JSON_KEYS = {"measured_ms", "ceiling_ms", "terms", "remainder_ms", "verdict", "levers"}


@pytest.fixture(autouse=True)
def fake_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.headless.load_transformers", fake_load(frozenset({13})))
    monkeypatch.setattr(gap_experiment, "MOST_ROUNDS", 5)
    monkeypatch.setattr(ladder_arithmetic, "RESAMPLES", 20)


def test_the_table_has_every_rung_between_ceiling_and_measured_time_and_the_verdict_below(workbench: Workbench) -> None:
    ended = workbench(*GAP)
    assert ended.code == 0, ended.err
    heads, *lines = ended.out.split("\n\n")[0].splitlines()
    assert heads.split() == ["rung", "ms", "95", "%", "interval", "of", "pass"]
    assert [line.split("  ")[0] for line in lines] == [
        "ceiling",
        *[part for part in Part if part is not Part.SAMPLING],
        ladder_arithmetic.FRAMEWORK,
        Part.SAMPLING,
        OTHER_LOAD,
        BELOW_QUIET,
        "remainder",
        "measured",
    ]
    assert ended.line("measured")[1] == "285.0"
    assert "The step takes 285.0 ms" in ended.out
    assert "alone, replayed 200.00" in ended.out
    assert "round 5 of 5" in ended.err


def test_json_stands_alone_and_its_terms_add_up(workbench: Workbench) -> None:
    ended = workbench(*GAP, "--format", "json", "--context", "32", "--batch", "4")
    found = ended.json
    assert found.keys() >= JSON_KEYS
    assert (found["phase"], found["tokens"], found["batch"], found["rounds"]) == ("decode", 32, 4, 5)
    assert all(term.keys() >= {"name", "ms", "low_ms", "high_ms", "evidence"} for term in found["terms"])
    total = found["ceiling_ms"] + sum(term["ms"] for term in found["terms"]) + found["remainder_ms"]
    assert total == pytest.approx(found["measured_ms"])
    assert found["measured_ms"] == pytest.approx(sum(FAKE_PARTS_S.values()) * 1e3 + 20)
    assert found["levers"] == []


def test_csv_has_a_line_for_each_rung_with_what_it_is_of(workbench: Workbench) -> None:
    lines = workbench(*GAP, "--format", "csv").csv
    assert [lines[0]["name"], lines[-2]["name"], lines[-1]["name"]] == ["ceiling", "remainder", "measured"]
    assert sum(float(line["ms"]) for line in lines[:-1]) == pytest.approx(float(lines[-1]["ms"]))
    weights = next(line for line in lines if line["name"] == Part.WEIGHTS)
    assert float(weights["low_ms"]) <= float(weights["ms"]) <= float(weights["high_ms"])
    assert (lines[0]["low_ms"], lines[0]["model"], lines[0]["dtype"], lines[0]["tokens"]) == (
        "",
        "smollm2-135m",
        "float32",
        "256",
    )


def test_a_prefill_is_asked_for_by_its_tokens(workbench: Workbench) -> None:
    found = workbench(*GAP, "--prefill", "48", "--format", "json").json
    assert (found["phase"], found["tokens"]) == ("prefill", 48)
    assert found["verdict"].startswith("The prefill takes 285.0 ms")


def test_a_track_gives_the_vendors_rung(workbench: Workbench) -> None:
    found = workbench(*GAP, "--track", "rtx-5090", "--format", "json").json
    assert found["terms"][0]["name"] == BELOW_VENDOR


def test_a_pass_that_fails_is_told_and_exits_with_1(workbench: Workbench) -> None:
    ended = workbench(*GAP, "--context", "13")
    assert ended.code == 1
    assert ended.out == ""
    assert "out of memory" in ended.err


@pytest.mark.parametrize(
    ("arguments", "said"), [(("--context", "0"), "context is 0"), (("--track", "rtx-5091"), "rtx-5090")]
)
def test_bad_input_exits_with_2_and_says_what_to_do(
    workbench: Workbench, arguments: tuple[str, ...], said: str
) -> None:
    ended = workbench(*GAP, *arguments)
    assert ended.code == 2
    assert said in ended.err


def test_a_kept_run_prints_the_same_ladder_again(workbench: Workbench) -> None:
    printed = {chosen: workbench(*GAP, "--format", chosen) for chosen in ("table", "json", "csv")}
    with Store() as store:
        csv, json, table = (run.run_id for run in store.runs())
    assert workbench("runs", "show", table).out.endswith(printed["table"].out)
    assert workbench("runs", "show", table).out.startswith(f"{table} · gap · ")
    shown = workbench("runs", "show", json, "--format", "json").json
    assert shown["run_id"] == json
    assert {key: shown[key] for key in printed["json"].json} == printed["json"].json
    assert [row["kind"] for row in shown["rows"]] == ["gap"]
    assert len(shown["rows"][0]["samples"]["tpot_s"]) == shown["rows"][0]["repeats"]
    assert workbench("runs", "show", csv, "--format", "csv").out == printed["csv"].out


def test_a_kept_ladder_is_exported_listed_and_compared(workbench: Workbench, tmp_path: Path) -> None:
    for arguments in ((), ("--context", "32"), ("--prefill", "32"), ("--prefill", "32")):
        assert workbench(*GAP, *arguments, "--format", "csv").code == 0
    with Store() as store:
        prefill, other_prefill, decode, first = (run.run_id for run in store.runs())
    path = tmp_path / "ladder.csv"
    ended = workbench("runs", "export", first, "--output", path)
    assert f"the ladder of {first} written" in ended.err
    assert path.read_text() == workbench("runs", "show", first, "--format", "csv").out
    assert workbench("runs", "export", first, "--format", "json").json["tokens"] == 256
    listed = workbench("runs", "list", "--format", "json").json
    assert [(line["kind"], line["rows"], line["points"]) for line in listed] == [("gap", 1, 1)] * 4
    (point,) = workbench("runs", "compare", prefill, other_prefill, "--format", "json").json["points"]
    assert (point["prompt_tokens"], point["ttft_ratio"]) == (32, pytest.approx(1.0))
    apart = workbench("runs", "compare", decode, first, "--format", "json").json
    assert apart["points"] == []
    assert len(apart["unmatched"]) == 2


def test_a_ladder_is_not_resumed(workbench: Workbench) -> None:
    assert workbench(*GAP).code == 0
    ended = workbench("runs", "resume", "last")
    assert ended.code == 2
    assert "finished" in ended.err


def test_a_second_memory_that_is_told_has_a_rung(workbench: Workbench) -> None:
    found = workbench(*GAP, "--slow-share", "10%", "--slow", "2", "--format", "json").json
    terms = {term["name"]: term for term in found["terms"]}
    assert terms[SPLIT_MEMORY]["ms"] > 0
    assert terms[SPLIT_MEMORY]["evidence"].startswith("arithmetic")
    refused = workbench(*GAP, "--slow-share", "10%")
    assert (refused.code, "--slow GBPS" in refused.err) == (2, True)


def test_the_rows_of_a_kept_sweep_give_a_ladder_and_say_what_they_can_t_tell(workbench: Workbench) -> None:
    assert workbench("sweep", "smollm2-135m", "--prompts", "16,256,1024", "--device", "cpu").code == 0
    printed = workbench("gap", "--run", "last", "--format", "json").json
    total = printed["ceiling_ms"] + sum(term["ms"] for term in printed["terms"]) + printed["remainder_ms"]
    assert total == pytest.approx(printed["measured_ms"])
    assert {"fixed cost of every pass", "context beyond its cache's bytes"} <= {t["name"] for t in printed["terms"]}
    assert any("weight kernels" in note for note in printed["notes"])
    assert workbench("gap", "--run", "last", "--prefill", "256", "--format", "json").json["phase"] == "prefill"
    table = workbench("gap", "--run", "last", "--context", "256")
    assert "! can't tell" in table.out
    assert "They hold" in workbench("gap", "--run", "last", "--context", "7").err
    assert "not both" in workbench("gap", "qwen3-0.6b", "--run", "last").err


def test_a_run_taken_apart_shows_its_own_ladder(workbench: Workbench) -> None:
    measured = workbench(*GAP, "--format", "json").json
    assert workbench("gap", "--run", "last", "--format", "json").json == measured
