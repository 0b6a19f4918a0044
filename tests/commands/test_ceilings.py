"""The commands that are arithmetic: the figures of the two texts, the keys scripts rely on, and the box."""

from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import Workbench
from tests.fakes import a_row
from workbench.hardware.machine import this_machine
from workbench.runs.run import Run
from workbench.runs.samples import Samples
from workbench.runs.store import Store

TEXTS = ("qwen3-8b-q4_k_m", "qwen3-30b-a3b-q4_k_m", "gpt-oss-120b-mxfp4")
DENSE, MIXTURE, GPT_OSS = TEXTS
CEILING_KEYS = [
    "model",
    "context",
    "batch",
    "bytes_per_step",
    "weight_bytes",
    "kv_bytes",
    "experts_touched",
    "seconds_per_step",
    "tokens_per_second_each",
    "tokens_per_second_total",
    "bound",
    "memory_needed_bytes",
    "fits",
]
LATENCY_KEYS = [
    "ttft_s",
    "tpot_ms",
    "decode_tokens_per_s",
    "prompt_tokens_per_s",
    "end_to_end_s",
    "stopwatch_tokens_per_s",
]
REQUEST = ("--prompt-tokens", "8000", "--output-tokens", "400", "--ttft", "12", "--end", "30")


def test_the_two_blocks_of_the_text(workbench: Workbench) -> None:
    """To the digit, but for 117.6 and 76.0: the text computes 117.5 and 75.9 from bytes rounded to a thousandth GB."""
    ended = workbench("ceiling", *TEXTS, "--bandwidth", "273")
    assert ended.code == 0
    assert ended.err.startswith("No arithmetic rate is known here")
    blocks = ended.out.split("\n\n")[1:]
    assert [" ".join(line.split()) for line in blocks[0].splitlines()] == [
        "batch 1: ceiling of each sequence in tokens/s, and GB read a step",
        "context qwen3-8b-q4_k_m qwen3-30b-a3b-q4_k_m gpt-oss-120b-mxfp4",
        "0 58.4 4.7 GB 142.2 1.9 GB 76.0 3.6 GB",
        "4,096 51.7 5.3 GB 117.6 2.3 GB 72.8 3.7 GB",
        "32,768 28.7 9.5 GB 53.1 5.1 GB 56.8 4.8 GB",
    ]
    assert [" ".join(line.split()) for line in blocks[1].splitlines()] == [
        "4,096 tokens in each sequence: ceiling of each / of all together, in tokens/s",
        "batch qwen3-8b-q4_k_m qwen3-30b-a3b-q4_k_m gpt-oss-120b-mxfp4",
        "1 51.7 / 52 117.6 / 118 72.8 / 73",
        "4 38.5 / 154 42.5 / 170 28.5 / 114",
        "16 19.0 / 305 14.7 / 235 9.6 / 153",
        "64 6.3 / 403 6.2 / 398 4.2 / 270",
    ]


def test_lines_of_a_table_end_in_the_same_column(workbench: Workbench) -> None:
    for block in workbench("ceiling", *TEXTS, "--bandwidth", "273").out.split("\n\n")[1:]:
        assert len({len(line) for line in block.splitlines()[1:]}) == 1


@pytest.mark.parametrize("model", [DENSE, "smollm2-135m", "qwen3-0.6b"])
def test_the_table_of_a_dense_model_fits_in_120_columns(workbench: Workbench, model: str) -> None:
    lines = workbench("ceiling", model, "--hardware", "rtx-4090").out.splitlines()
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("context")) :]
    assert max(map(len, table)) <= 120
    assert "experts" not in table[0]


def test_ceilings_have_the_keys_scripts_rely_on(workbench: Workbench) -> None:
    found = workbench("ceiling", DENSE, MIXTURE, "--bandwidth", "273", "--format", "json").json
    for record in found:
        assert [key for key in record if key in CEILING_KEYS] == CEILING_KEYS
        for key in ("context", "batch", "bytes_per_step", "weight_bytes", "kv_bytes", "memory_needed_bytes"):
            assert type(record[key]) is int
        assert record["fits"] is None
        assert record["bound"] in ("weight reads", "cache reads")
        assert record["tokens_per_second_total"] == pytest.approx(record["batch"] * record["tokens_per_second_each"])
        assert record["seconds_per_step"] == pytest.approx(1 / record["tokens_per_second_each"])
    assert {record["experts_touched"] for record in found if record["model"] == DENSE} == {None}
    touched = [record["experts_touched"] for record in found if record["model"] == MIXTURE]
    assert [round(number, 1) for number in touched] == [8.0, 8.0, 8.0, 29.1, 82.4, 125.9]


@pytest.mark.parametrize(
    "arguments",
    [
        ("ceiling", DENSE, "--hardware", "rtx-4090"),
        ("ceiling", DENSE, MIXTURE, "--hardware", "rtx-4090", "--levers"),
        ("prefill", DENSE, "--hardware", "rtx-4090"),
        ("fit", DENSE, "--memory", "12"),
        ("split", DENSE, "--fast", "1000", "--slow", "50"),
        ("latency", *REQUEST),
    ],
)
def test_csv_has_the_names_and_figures_of_json(workbench: Workbench, arguments: tuple[str, ...]) -> None:
    json, csv = workbench(*arguments, "--format", "json").json, workbench(*arguments, "--format", "csv").csv
    records: list[dict[str, Any]] = json if isinstance(json, list) else [json]
    assert len(records) == len(csv)
    for record, line in zip(records, csv, strict=True):
        record.pop("changes", None)
        assert list(record) == list(line)
        for name, value in record.items():
            match value:
                case None:
                    assert line[name] == ""
                case bool():
                    assert line[name] == str(value).lower()
                case int() | float():
                    assert float(line[name]) == value
                case _:
                    assert line[name] == value


def test_lists_give_every_pair_in_the_order_given_and_once(workbench: Workbench) -> None:
    arguments = ("ceiling", DENSE, "--bandwidth", "273", "--context", "4096, 0,4_096", "--batch", "64,1")
    found = workbench(*arguments, "--format", "json").json
    assert [(record["context"], record["batch"]) for record in found] == [(4096, 64), (4096, 1), (0, 64), (0, 1)]
    rows = [
        line.split()[:2] for line in workbench(*arguments).out.splitlines() if line.startswith(("  4,096", "     "))
    ]
    assert rows == [
        ["4,096", "64"], ["0", "64"], ["4,096", "64"], ["4,096", "1"], ["0", "64"], ["0", "1"],
    ]  # fmt: skip


def test_one_context_with_several_batches_is_one_table(workbench: Workbench) -> None:
    out = workbench("ceiling", DENSE, "--bandwidth", "273", "--context", "4096", "--batch", "1,4").out
    assert sum(line.startswith("context") for line in out.splitlines()) == 1


def test_a_model_named_twice_is_shown_once(workbench: Workbench) -> None:
    once = workbench("ceiling", DENSE, "--bandwidth", "273").out
    assert workbench("ceiling", DENSE, DENSE, "--bandwidth", "273").out == once


def test_a_device_its_figures_and_what_was_given_instead(workbench: Workbench) -> None:
    ended = workbench("ceiling", DENSE, "--hardware", "RTX-5090", "--context", "0")
    assert "NVIDIA GeForce RTX 5090" in ended.out
    assert "B 1,792 GB/s [vendor: " in ended.out
    assert "M 32.0 GB [vendor: " in ended.out
    assert ended.line("0")[-5:] == ["383.6", "383.6", "weight reads", "5.03 GB", "yes"]
    given = workbench(
        "ceiling", DENSE, "--hardware", "rtx-5090", "--context", "0",
        "--bandwidth", "467.2", "--compute", "0.5", "--memory", "4",
    )  # fmt: skip
    for figure in ("B 467 GB/s", "C 500 GFLOP/s", "M 4.00 GB"):
        assert f"{figure} [assumed: given on the command line]" in given.out
    assert given.line("0")[-3:] == ["memory", "5.03 GB", "no"]
    assert given.out.endswith(f"! {DENSE} does not fit in 4.00 GB: even batch 1 at 0 tokens needs 5.03 GB.\n")


def test_where_a_batch_stops_fitting_is_said(workbench: Workbench) -> None:
    ended = workbench("ceiling", DENSE, "--hardware", "rtx-5090", "--format", "json")
    assert ended.err == f"{DENSE} does not fit in 32.0 GB from batch 64 at 4,096 tokens on, which needs 43.7 GB.\n"
    assert [record["fits"] for record in ended.json] == [True] * 5 + [False]
    assert ended.json[-1]["bound"] == "memory"


def test_a_context_past_the_models_own_is_said(workbench: Workbench) -> None:
    ended = workbench("ceiling", "smollm2-135m", "--bandwidth", "100", "--format", "csv")
    assert "smollm2-135m was made for contexts of up to 8,192 tokens.\n" in ended.err
    assert len(ended.csv) == 6


@pytest.mark.parametrize("track", ["S", "track s", "DGX Spark", "dgx-spark"])
def test_hardware_may_be_a_tracks(workbench: Workbench, track: str) -> None:
    ended = workbench("ceiling", *TEXTS, "--hardware", track, "--context", "4096", "--format", "json")
    assert [round(record["tokens_per_second_each"], 1) for record in ended.json] == [51.7, 117.6, 72.8]


def test_this_machine_where_nothing_was_measured(workbench: Workbench) -> None:
    for arguments in ((), ("--hardware", "this machine"), ("--hardware", "This-Machine")):
        ended = workbench("ceiling", "smollm2-135m", *arguments, "--context", "0")
        assert ended.code == 0
        assert (
            "B 12.0 GB/s [assumed: nothing has been measured on this machine yet: `workbench probe` does]" in ended.out
        )


def test_this_machine_with_the_rates_its_runs_measured(workbench: Workbench) -> None:
    row = a_row(
        machine=str(this_machine()), device="cpu", dtype="float32", read_gb_per_s=26.9030016, peak_gflop_per_s=150.0
    )
    with Store() as store:
        store.add_run(Run(row.run_id, "prefill_decode", row.started_at, row.model, row.machine, {}))
        store.add_row(row, Samples((), ()))
    ended = workbench("ceiling", "smollm2-135m", "--context", "0")
    assert f"B 26.9 GB/s [measured: the better of before and after a point of run {row.run_id}, on" in " ".join(
        ended.out.split()
    )
    assert "C 150 GFLOP/s [measured: " in ended.out
    assert "100.0" in ended.line("0")


def test_a_broken_store_is_said_and_no_obstacle(workbench: Workbench, data_folder: Path) -> None:
    data_folder.mkdir()
    (data_folder / "runs.sqlite3").write_text("this is no database, and long enough to be seen as none " * 20)
    ended = workbench("ceiling", "smollm2-135m", "--context", "0")
    assert ended.code == 0
    assert "B 12.0 GB/s [assumed: the store of runs can't be read, so what was measured isn't known" in ended.out
    assert ended.out.count("what was measured isn't known") == 2


def test_a_data_folder_that_is_a_file_is_no_obstacle(
    workbench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path / "file"))
    assert workbench("ceiling", "smollm2-135m").code == 0


def test_weights_and_cache_of_other_types(workbench: Workbench) -> None:
    def bytes_of(*arguments: str) -> tuple[int, int]:
        (record,) = workbench(
            "ceiling", "qwen3-0.6b", "--bandwidth", "100", "--context", "4096", "--format", "json", *arguments
        ).json
        return record["weight_bytes"], record["kv_bytes"]

    weights, cache = bytes_of()
    assert weights == 596_049_920 * 2
    assert bytes_of("--dtype", "Float32") == (weights * 2, cache)
    assert bytes_of("--kv-dtype", "f32") == (weights, cache * 2)
    assert bytes_of("--kv-dtype", "Q8_0") == (weights, cache * 34 // 64)


def test_levers_of_several_models_are_one_list(workbench: Workbench) -> None:
    arguments = ("ceiling", DENSE, MIXTURE, "--hardware", "rtx-4090", "--levers", "--context", "100")
    found = workbench(*arguments, "--format", "json").json
    assert {(lever["model"], lever["context"], lever["batch"]) for lever in found} == {
        (DENSE, 100, 1),
        (MIXTURE, 100, 1),
    }
    assert {"lever", "tokens_per_second", "factor", "why"} <= set(found[0])
    table = workbench(*arguments).out
    assert f"{DENSE} · qwen3 · Q4_K_M · 100 tokens of context, batch 1 · ceiling " in table
    assert "twice the bandwidth" in table


def test_levers_say_what_box_they_are_for_and_what_does_not_fit(workbench: Workbench) -> None:
    ended = workbench("ceiling", "qwen3-8b", "--hardware", "rtx-3060-12gb", "--levers")
    assert "B 360 GB/s [vendor: " in ended.out
    assert ended.out.endswith("! qwen3-8b does not fit in 12.0 GB: even batch 1 at 4,096 tokens needs 17.0 GB.\n")


def test_weights_held_in_another_type_are_labelled_so(workbench: Workbench) -> None:
    for arguments in (
        ("ceiling", "--bandwidth", "9"),
        ("fit", "--memory", "40"),
        ("split", "--fast", "9", "--slow", "1"),
    ):
        name, *box = arguments
        assert f"{DENSE} · qwen3 · Q4_K_M, held in float32" in workbench(name, DENSE, "--dtype", "float32", *box).out
    assert "qwen3-8b · qwen3 · bfloat16\n" in workbench("prefill", "qwen3-8b", "--dtype", "bfloat16").out


def test_levers_are_for_one_place(workbench: Workbench) -> None:
    ended = workbench("ceiling", DENSE, "--bandwidth", "273", "--levers", "--context", "0,4096")
    assert (ended.code, ended.out) == (2, "")
    assert "one context and one batch" in ended.err


def test_prefill_and_where_it_turns(workbench: Workbench) -> None:
    arguments = ("prefill", "qwen3-0.6b", "--dtype", "float32", "--bandwidth", "28", "--compute", "0.741")
    found = workbench(*arguments, "--format", "json").json
    assert [record["prompt_tokens"] for record in found] == [1, 16, 64, 256, 1024, 4096]
    assert {record["crossover_tokens"] for record in found} == {found[0]["crossover_tokens"]}
    n = ceil(found[0]["crossover_tokens"])
    both = workbench(*arguments, "--prompts", f"{int(0.95 * n)},{n}", "--format", "json").json
    assert both[0]["arithmetic_seconds"] < both[0]["bytes_seconds"]
    assert both[1]["arithmetic_seconds"] >= both[1]["bytes_seconds"]
    for record in found:
        assert record["seconds"] == max(record["arithmetic_seconds"], record["bytes_seconds"])
        assert record["bound"] in ("bytes", "both", "maths")
    table = workbench(*arguments)
    assert f"n* = W·C / (2·N·B) = {found[0]['crossover_tokens']:.0f} tokens" in table.out
    assert table.line("1,024")[-1] == "maths"


def test_prefill_without_an_arithmetic_rate(workbench: Workbench) -> None:
    ended = workbench("prefill", "qwen3-0.6b", "--bandwidth", "28")
    assert "give --compute" in ended.out
    assert "F / C" not in ended.out
    records = workbench("prefill", "qwen3-0.6b", "--bandwidth", "28", "--format", "json").json
    assert {record["arithmetic_seconds"] for record in records} == {None}


def test_prefill_that_never_turns(workbench: Workbench) -> None:
    ended = workbench("prefill", DENSE, "--bandwidth", "0.001", "--compute", "1e9", "--prompts", "16")
    assert "n*" in ended.out


def test_the_12_gb_card_of_the_text(workbench: Workbench) -> None:
    arguments = ("fit", DENSE, "--memory", "12", "--context", "32768")
    ended = workbench(*arguments)
    assert ended.line("32,768") == [
        "32,768", "1", "5.03 GB", "4.83 GB", "9.86 GB", "12.0 GB", "2.14 GB", "yes", "40,960", "1",
    ]  # fmt: skip
    assert "buffers" in ended.out
    (record,) = workbench(*arguments, "--format", "json").json
    assert record["free_bytes"] == 12 * 10**9 - record["memory_needed_bytes"]
    assert record["fits"] is True
    (on_card,) = workbench("fit", DENSE, "--hardware", "rtx-3060-12gb", "--context", "32768", "--format", "json").json
    assert on_card == record


def test_what_does_not_fit(workbench: Workbench) -> None:
    (record,) = workbench("fit", GPT_OSS, "--memory", "32", "--format", "json").json
    assert (record["fits"], record["longest_context"], record["largest_batch"]) == (False, 0, 0)
    assert record["free_bytes"] < 0


def test_split_over_two_memories(workbench: Workbench) -> None:
    """Slowdown 1 + f·(r − 1) of shares 5, 10, 25 and 50 per cent on a memory 5, 10 or 20 times slower."""
    for ratio, printed in {5: "1.2 1.4 2.0 3.0", 10: "1.45 1.9 3.25 5.5", 20: "1.95 2.9 5.75 10.5"}.items():
        arguments = ("split", DENSE, "--fast", "1000", "--slow", str(1000 / ratio), "--slow-share", "5%,0.1,25 %, .5")
        found = workbench(*arguments, "--format", "json").json
        assert [record["slowdown"] for record in found] == pytest.approx([float(figure) for figure in printed.split()])
        assert [record["ratio"] for record in found] == pytest.approx([ratio] * 4)
        for record in found:
            assert record["fast_bytes"] + record["slow_bytes"] == pytest.approx(4_672_000_000, rel=1e-3)


def test_split_the_wrong_way_round_is_said(workbench: Workbench) -> None:
    ended = workbench("split", DENSE, "--fast", "50", "--slow", "1,000", "--slow-share", "0.5")
    assert ended.code == 0
    assert "the other way round" in ended.out


def test_the_request_of_the_text(workbench: Workbench) -> None:
    changed = ("--shorter-prompt", "2000", "--faster-decode", "1.5", "--cached-prefix", "7,500")
    ended = workbench("latency", *REQUEST, *changed)
    assert ended.line("TTFT ")[1] == "12.0 s"
    assert ended.line("TPOT ms")[1] == "45.1"
    assert ended.line("decode tok/s")[1] == "22.2"
    assert ended.line("prompt tok/s")[1] == "666.7"
    assert ended.line("stopwatch tok/s")[1] == "13.3"
    assert ended.line("none") == ["none", "12.0 s", "45.1", "30.0 s"]
    assert ended.line("prompt of 2,000 tokens")[1:4] == ["3.00 s", "45.1", "21.0 s"]
    assert ended.line("decode 1.5 times faster")[1:4] == ["12.0 s", "30.1", "24.0 s"]
    assert ended.line("7,500 prompt tokens cached")[1:4] == ["750 ms", "45.1", "18.8 s"]


def test_without_a_change_asked_there_is_no_table_of_changes(workbench: Workbench) -> None:
    assert "change" not in workbench("latency", *REQUEST).out


def test_latency_has_the_keys_scripts_rely_on(workbench: Workbench) -> None:
    found = workbench("latency", *REQUEST, "--cached-prefix", "7500", "--format", "json").json
    assert [key for key in found if key in LATENCY_KEYS] == LATENCY_KEYS
    assert all(isinstance(found[key], float) for key in LATENCY_KEYS)
    assert [change["change"] for change in found["changes"]] == ["none", "7,500 prompt tokens cached"]


def test_waiting_is_no_prefill(workbench: Workbench) -> None:
    found = workbench("latency", *REQUEST, "--waited", "2", "--format", "json").json
    assert (found["ttft_s"], found["prompt_tokens_per_s"]) == (12.0, 800.0)


@pytest.mark.parametrize("option", ["--peak", "--compute"])
def test_the_ridge_of_the_text(workbench: Workbench, option: str) -> None:
    ended = workbench("roofline", option, "1,000", "--bandwidth", "3000", "--batch", "1,333,334", "--prompts", "2000")
    assert "The ridge is at 333 FLOP/byte" in ended.out
    assert "at 333 tokens in one pass" in ended.out or "at 334 tokens in one pass" in ended.out
    assert ended.line("decode        1") == ["decode", "1", "1.00", "3.00 TFLOP/s", "0.3 %", "memory"]
    assert [ended.line(start)[-1] for start in ("decode      333", "decode      334")] == ["memory", "compute"]
    assert ended.line("prefill")[1:] == ["2,000", "2,000", "1.00 PFLOP/s", "100 %", "compute"]


def test_the_roofline_of_a_model(workbench: Workbench) -> None:
    arguments = ("roofline", DENSE, "--hardware", "rtx-4090", "--context", "4096")
    found = workbench(*arguments, "--format", "json").json
    assert found["points"][0]["work"] == "decode"
    assert {point["bound"] for point in found["points"]} == {"memory", "compute"}
    lines = workbench(*arguments, "--format", "csv").csv
    assert [line["tokens"] for line in lines] == [str(point["tokens"]) for point in found["points"]]
    assert f"{DENSE} · qwen3 · Q4_K_M · 4,096 tokens of context" in workbench(*arguments).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ceiling", "qwen3-8c"), "Did you mean qwen3-8b?"),
        (("ceiling", ""), "No model is named"),
        (("ceiling", DENSE, "--hardware", "rtx-5099"), "no device named 'rtx-5099'. Did you mean rtx-5090?"),
        (("ceiling", DENSE, "--hardware", ""), "no device named ''"),
        (("fit", DENSE, "--bandwidth", "273"), "--memory 24"),
        (("roofline", "--bandwidth", "3000"), "--peak 100"),
        (("roofline", "--hardware", "ddr4-3200-2ch"), "--peak 100"),
        (("latency", *REQUEST[:-3], "30", "--end", "12"), "the first must come after 0 s and before the last"),
        (("latency", *REQUEST, "--waited", "12"), "12 s of waiting"),
        (("latency", *REQUEST, "--cached-prefix", "8000"), "shorter than the prompt"),
        (("latency", "--prompt-tokens", "8", "--output-tokens", "1", "--ttft", "1", "--end", "2"), "at least 2"),
        (("inspect", "qwen3-9b"), "Did you mean qwen3-8b?"),
        (("presets", "rtx-409"), "no preset named 'rtx-409'. Did you mean rtx-4090?"),
        (("presets", ""), "no preset named ''"),
        (("--preset", "dgx-sparc"), "no preset named 'dgx-sparc'. Did you mean dgx-spark?"),
    ],
)
def test_bad_input_is_one_sentence(workbench: Workbench, arguments: tuple[str, ...], message: str) -> None:
    ended = workbench(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert ended.err.startswith("workbench: ")
    assert ended.err.count("\n") == 1


def test_models_by_path(workbench: Workbench, tmp_path: Path) -> None:
    from tests.models_on_disk import smollm2_gguf

    spaced = tmp_path / "a model" / "smol lm.gguf"
    spaced.parent.mkdir()
    spaced.symlink_to(smollm2_gguf())
    (record,) = workbench("ceiling", spaced, "--bandwidth", "96.6", "--context", "0", "--format", "json").json
    assert record["bytes_per_step"] == 96_576_768
    empty = workbench("ceiling", spaced.parent, "--bandwidth", "96.6")
    assert (empty.code, empty.out) == (2, "")
    assert str(spaced.parent) in empty.err


def test_a_persons_own_device_and_model_win(workbench: Workbench, own_presets: Callable[[str, str, str], Path]) -> None:
    own_presets(
        "hardware",
        "mine.toml",
        'name = "rtx-4090"\ntitle = "My card"\n[bandwidth]\ngb_per_s = 100\norigin = "measured"\nsource = "me"\n',
    )
    ended = workbench("ceiling", DENSE, "--hardware", "RTX-4090", "--context", "0")
    assert "My card\n  B 100 GB/s [measured: me]\n" in ended.out
