"""The Setup pane: what it opens on, what it says of bad input, and that single keys stay commands."""

import asyncio
import threading
from typing import Any

import pytest
from textual.widgets import OptionList

from tests.engines.endpoint.playing_server import playing
from tests.fakes import a_row
from tests.models_on_disk import smollm2_gguf
from tests.ui.driving import GUARD_S, SIZES, an_app, finished, message, shown, until
from workbench.experiments.engine_settings import ENGINES, EndpointSettings, LlamaCppSettings
from workbench.experiments.gap.named_variants import variant_named
from workbench.experiments.gap.variant import AS_LOADED
from workbench.experiments.settings import SweepSettings
from workbench.hardware.machine import this_machine
from workbench.runs.run import Run
from workbench.runs.samples import Samples
from workbench.runs.store import Store
from workbench.tracks import Suited
from workbench.ui.app import WorkbenchApp
from workbench.ui.panes.setup import SetupPane
from workbench.ui.widgets.choice import Choice
from workbench.ui.widgets.entry import Entry


def field(app: WorkbenchApp, name: str) -> Entry:
    return app.screen_stack[0].query_one(f"#{name}", Entry)


@pytest.mark.parametrize("size", SIZES)
async def test_it_opens_on_a_run_that_needs_no_choice(size: tuple[int, int]) -> None:
    app = WorkbenchApp(SweepSettings())
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: shown(app, "#plan") != "")
        assert "qwen3-0.6b" in shown(app, "#plan")
        assert "2.38 GB per token" in shown(app, "#plan")
        run, refused = shown(app, "#setup-run"), shown(app, "#setup-problem")
        assert run.startswith("r runs this sweep, about ") or "needs" in refused
        models = app.screen.query_one("#models", OptionList)
        assert models.has_focus
        assert models.highlighted is not None


async def test_rates_measured_meanwhile_are_taken_over_with_the_time_a_run_takes() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await until(pilot, lambda: shown(app, "#setup-run") != "")
        assert "B 12.0 GB/s assumed" in shown(app, "#setup-machine")
        before = shown(app, "#setup-run")
        await pilot.press("6")
        rates = {"read_gb_per_s": 2.0, "peak_gflop_per_s": 5.0}
        row = a_row(machine=str(this_machine()), device="cpu", run_id="meanwhile", dtype="float32", **rates)
        with Store() as store:
            store.add_run(Run(row.run_id, row.kind, row.started_at, row.model, row.machine, {}))
            store.add_row(row, Samples((), ()))
        await pilot.press("1")
        await until(pilot, lambda: "B 2.00 GB/s measured · C 5.00 GFLOP/s measured" in shown(app, "#setup-machine"))
        assert "B 2.00 GB/s measured" in shown(app, "#strip")
        await until(pilot, lambda: shown(app, "#setup-run") != before)


async def test_a_run_leaves_its_rates_in_setup() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await until(pilot, lambda: shown(app, "#setup-run") != "")
        await pilot.press("r")
        await finished(pilot, app)
        assert "assumed" not in shown(app, "#setup-machine")


async def test_another_model_is_planned_at_once() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await until(pilot, lambda: "smollm2-135m" in shown(app, "#plan"))
        await pilot.press("home")
        await until(pilot, lambda: "smollm2-135m" not in shown(app, "#plan"))
        assert field(app, "model").value in shown(app, "#plan")


def model_lines(app: WorkbenchApp) -> list[str]:
    models = app.screen.query_one("#models", OptionList)
    return [str(models.get_option_at_index(index).prompt) for index in range(models.option_count)]


@pytest.mark.parametrize("size", SIZES)
async def test_every_preset_says_what_it_needs_and_whether_that_fits_under_a_heading(size: tuple[int, int]) -> None:
    app = an_app()
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: shown(app, "#plan") != "" and "fits" in model_lines(app)[-1])
        heading, lines = shown(app, "#models-heading"), model_lines(app)
        columns = heading.index("in float32") + len("in float32"), heading.index("memory")
        for line in (each for each in lines if "on disk" not in each):
            assert line[: columns[0]].endswith("B")
            assert line[columns[1] :] in ("fits", "too big")
        assert f"{'llama-3.1-70b':<24}283 GB too big" in lines
        models = app.screen.query_one("#models", OptionList)
        assert max(map(len, [heading, *lines])) <= models.scrollable_content_region.width
        assert not any(len(line) > app.screen.query_one("#plan").size.width for line in shown(app, "#plan").split("\n"))


async def test_the_list_says_what_the_panel_beside_it_says_of_the_model_chosen() -> None:
    app = an_app(model="qwen3-8b-q4_k_m")
    async with app.run_test(size=SIZES[0]) as pilot:
        await until(pilot, lambda: "needs 33.2 GB" in shown(app, "#setup-problem") or shown(app, "#setup-run") != "")
        await until(pilot, lambda: any("33.2 GB" in line for line in model_lines(app)))
        (line,) = (line for line in model_lines(app) if line.startswith("qwen3-8b-q4_k_m"))
        assert line.endswith("too big" if shown(app, "#setup-problem") else "fits")
        app.screen.query_one("#dtype", Choice).action_turn(1)
        await until(pilot, lambda: "in bfloat16" in shown(app, "#models-heading"))
        await until(
            pilot, lambda: f"needs       {line_of(app, 'qwen3-8b-q4_k_m').split()[1]} GB" in shown(app, "#plan")
        )


def line_of(app: WorkbenchApp, model: str) -> str:
    return next(line for line in model_lines(app) if line.split()[0] == model)


async def test_down_past_the_last_model_goes_on_to_the_fields_and_up_comes_back() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await until(pilot, lambda: shown(app, "#plan") != "")
        models = app.screen.query_one("#models", OptionList)
        await pilot.press("end", "down")
        assert models.highlighted == models.option_count - 1
        assert app.screen.query_one("#track").has_focus
        await pilot.press("up")
        assert models.has_focus


async def test_what_fits_follows_the_track() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await until(pilot, lambda: any("qwen3-235b-a22b" in line and "too big" in line for line in model_lines(app)))
        await until(pilot, lambda: any(line.startswith("gpt-oss-120b-mxfp4") for line in model_lines(app)))
        app.screen.query_one("#track", Choice).action_turn(-1)
        assert app.screen.query_one(SetupPane).settings_or(SweepSettings()).track == "X"
        await until(
            pilot, lambda: any("gpt-oss-120b-mxfp4" in line and line.endswith("fits") for line in model_lines(app))
        )


async def test_an_answer_that_comes_while_the_app_leaves_is_taken_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, leaving, answered = threading.Event(), threading.Event(), threading.Event()
    problems: list[Exception] = []
    call_from_thread = WorkbenchApp.call_from_thread

    def suited_late(settings: SweepSettings, names: object) -> list[Suited]:
        asked.set()
        assert leaving.wait(GUARD_S)
        return []

    def noted(app: WorkbenchApp, *callback: Any) -> Any:
        try:
            return call_from_thread(app, *callback)
        except Exception as error:
            problems.append(error)
            raise
        finally:
            if leaving.is_set():
                answered.set()

    async def unmounted(pane: SetupPane) -> None:
        # The widgets of the pane are gone by now, and the pane is not.
        leaving.set()
        assert await asyncio.to_thread(answered.wait, GUARD_S)

    monkeypatch.setattr("workbench.ui.panes.setup.suited_here", suited_late)
    monkeypatch.setattr(WorkbenchApp, "call_from_thread", noted)
    monkeypatch.setattr(SetupPane, "on_unmount", unmounted, raising=False)
    async with an_app().run_test(size=SIZES[0]):
        assert await asyncio.to_thread(asked.wait, GUARD_S)
    assert problems == []


async def test_the_run_and_its_time_stand_first_and_are_not_told_of_what_is_refused() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await until(pilot, lambda: shown(app, "#setup-run") != "")
        run = app.screen.query_one("#setup-run")
        assert run.region.y == app.screen.query_one("#setup-plan").region.y
        field(app, "model").value = "qwen3-235b-a22b"
        await until(pilot, lambda: "GB of weights" in shown(app, "#setup-problem"))
        assert shown(app, "#setup-run") == ""
        assert not run.display


async def test_a_model_that_does_not_fit_is_refused_with_figures() -> None:
    app = an_app(model="qwen3-235b-a22b")
    async with app.run_test(size=SIZES[0]) as pilot:
        await until(pilot, lambda: "GB of weights" in shown(app, "#setup-problem"))
        await pilot.press("r")
        await pilot.pause()
        assert "GB of weights" in message(app)
        assert app.live is None


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("model", "/no/such/folder", "/no/such/folder"),
        ("model", "qwen3-0.6", "Did you mean qwen3-0.6b?"),
        ("prompts", "1,banana", "banana"),
        ("prompts", "0", "at least 1"),
        ("prompts", "999999", "longer than the context"),
        ("new-tokens", "1", "at least 2"),
        ("repeats", "-3", "at least 1"),
        ("threads", "none", "none"),
    ],
)
async def test_bad_input_is_said_at_once_and_the_app_stays(name: str, text: str, said: str) -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await until(pilot, lambda: shown(app, "#plan") != "")
        field(app, name).focus()
        await pilot.press("enter", "ctrl+u", *text, "enter")
        await until(pilot, lambda: said in shown(app, "#setup-problem"))
        assert shown(app, "#setup-run") == ""
        await pilot.press("r")
        await until(pilot, lambda: app.screen is not app.screen_stack[0])
        assert said in message(app)
        assert app.is_running


@pytest.mark.parametrize(("settings", "meant"), [({"dtype": "floot32"}, "float32"), ({"device": "cudda"}, "cuda")])
async def test_an_unknown_name_is_refused_with_the_nearest(settings: dict[str, Any], meant: str) -> None:
    app = an_app(**settings)
    async with app.run_test(size=SIZES[0]) as pilot:
        await until(pilot, lambda: f"Did you mean {meant}?" in shown(app, "#setup-problem"))


async def test_a_field_is_typed_over_or_edited_in_place_and_escape_undoes_either() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        entry = field(app, "repeats")
        entry.focus()
        await pilot.press("7", "escape")
        assert entry.value == "2"
        await pilot.press("enter", "3", "escape")
        assert entry.value == "2"
        await pilot.press("enter", "3", "enter")
        assert entry.value == "23"
        assert app.screen.query_one("#models").has_focus
        entry.focus()
        await pilot.press("4", "enter")
        assert app.screen.query_one(SetupPane).settings().repeats == 4
        entry.focus()
        await pilot.press("2", "3", "enter")
        assert app.screen.query_one(SetupPane).settings().repeats == 23


async def test_a_name_typed_on_a_field_never_acts_as_commands() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await until(pilot, lambda: shown(app, "#plan") != "")
        field(app, "model").focus()
        await pilot.press(*"qwen3-1.7b", "enter")
        await until(pilot, lambda: "qwen3-1.7b" in shown(app, "#plan"))
        assert app.is_running
        assert app.live is None


async def test_choices_turn_and_up_and_down_move_between_fields() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        field(app, "model").focus()
        await pilot.press("down", "down", "down", "right")
        await pilot.pause()
        assert app.screen.query_one(SetupPane).settings().dtype == "bfloat16"
        await pilot.press("left", "up", "right")
        await pilot.pause()
        assert app.screen.query_one(SetupPane).settings().weights == "real"
        await until(pilot, lambda: "has no weights" in shown(app, "#setup-problem"))


async def test_what_is_chosen_is_what_runs() -> None:
    app = an_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        field(app, "prompts").focus()
        await pilot.press("enter", "ctrl+u", *"4,8", "enter", "r")
        await finished(pilot, app)
        rows: list[Any] = app.live.rows if app.live else []
        assert [row.prompt_tokens for row in rows] == [4, 8]


async def test_another_engine_takes_the_file_as_it_is_and_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/no/such/folder")
    app = an_app(engine="llama.cpp")
    async with app.run_test(size=SIZES[0]) as pilot:
        await until(pilot, lambda: "no GGUF file" in shown(app, "#setup-problem"))
        field(app, "model").value = str(smollm2_gguf())
        await until(pilot, lambda: "llama.cpp, real weights" in shown(app, "#plan"))
        assert "96.6 MB per token" in shown(app, "#plan")
        app.screen.query_one("#engine", Choice).focus()
        await pilot.press("right")
        await until(pilot, lambda: "no llama-bench on the PATH" in shown(app, "#setup-problem"))
        await pilot.press("right")
        await until(pilot, lambda: "is no http address" in shown(app, "#setup-problem"))


@pytest.mark.parametrize("size", SIZES)
async def test_only_the_fields_of_the_engine_chosen_are_shown_and_reached(size: tuple[int, int]) -> None:
    app = an_app()
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: shown(app, "#plan") != "")
        app.screen.query_one("#engine", Choice).focus()
        reached = {}
        for engine in ENGINES:
            assert app.screen.query_one("#engine", Choice).value == engine
            names = []
            for _ in range(20):
                await pilot.press("down")
                focused = app.screen.focused
                assert focused is not None
                assert focused.region.height == 1
                names.append(str(focused.id))
                if focused.id == "repeats":
                    break
            reached[engine] = names[:-3]
            app.screen.query_one("#engine", Choice).focus()
            await pilot.press("right")
            await pilot.pause()
        llama = ["threads", "batch-tokens", "micro-batch-tokens", "cache-k", "cache-v", "gpu-layers"]
        assert reached == {
            "transformers": ["weights", "dtype", "device", "threads", "levers"],
            "llama.cpp": llama,
            "llama-bench": ["threads", "program", *llama[1:]],
            "endpoint": [
                *("endpoint", "served-model", "api", "hardware", "devices"),
                *("cache-type", "timeout", "rate", "ttft-limit", "tpot-limit"),
            ],
        }


async def test_what_is_set_for_an_engine_is_asked_of_it_and_of_no_other() -> None:
    app = an_app(engine="llama.cpp", variant=variant_named(["preallocated-cache"]))
    async with app.run_test(size=SIZES[0]) as pilot:
        pane = app.screen.query_one(SetupPane)
        for name, text in (
            ("batch-tokens", "256"),
            ("micro-batch-tokens", "64"),
            ("gpu-layers", "9"),
            ("threads", "1"),
        ):
            field(app, name).value = text
        app.screen.query_one("#cache-v", Choice).value = "q8_0"
        settings = pane.settings()
        assert settings.llama_cpp == LlamaCppSettings(256, 64, "f16", "q8_0", 9)
        assert (settings.threads, settings.variant, settings.endpoint) == (1, AS_LOADED, EndpointSettings())
        app.screen.query_one("#engine", Choice).value = "endpoint"
        for name, text in (
            *(("endpoint", "http://127.0.0.1:1"), ("served-model", "m"), ("hardware", "rtx-5090"), ("devices", "2")),
            *(("timeout", "1.5"), ("rate", "8"), ("ttft-limit", "200"), ("tpot-limit", "50")),
        ):
            field(app, name).value = text
        assert pane.settings().endpoint == EndpointSettings(
            "http://127.0.0.1:1", "m", "auto", "rtx-5090", 2, "float16", 1.5, 8.0, 200.0, 50.0
        )
        assert pane.settings().llama_cpp == LlamaCppSettings()
        field(app, "rate").value = "many"
        await until(pilot, lambda: "arrivals/s holds 'many', which is not a number." in shown(app, "#setup-problem"))
        field(app, "rate").value = ""
        field(app, "hardware").value = "rtx-509"
        await until(pilot, lambda: "Did you mean" in shown(app, "#setup-problem"))


async def test_an_endpoint_is_swept_from_its_address() -> None:
    with playing() as server:
        app = WorkbenchApp(
            SweepSettings(model="smollm2-135m", engine="endpoint", prompts=(8, 16), repeats=2, new_tokens=5)
        )
        async with app.run_test(size=SIZES[0]) as pilot:
            field(app, "endpoint").value = server.url
            await until(pilot, lambda: shown(app, "#setup-run").startswith("r runs this sweep"))
            await pilot.press("r")
            await finished(pilot, app)
            assert app.live is not None
            assert [(row.engine, row.status) for row in app.live.rows] == [("vLLM", "ok")] * 2
            assert server.url in app.live.rows[0].machine
