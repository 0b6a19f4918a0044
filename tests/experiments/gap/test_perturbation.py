"""The controlled perturbation: both sweeps kept as runs of their own, and their rows read in words."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fakes import FakeModel, fake_load
from tests.models_on_disk import tiny_folder
from tests.runs.test_symptoms import STEP_MS, TPOT_MS, TTFT_MS, a_request, a_step
from workbench.engines.engine import LoadedModel
from workbench.errors import SettingsError
from workbench.experiments.events import Event, Finished, RowMeasured, Started
from workbench.experiments.gap.perturbation import Sentence, perturbation, perturbations, reading
from workbench.experiments.plan import LoadPlan
from workbench.experiments.settings import GapSettings
from workbench.experiments.window import TimedWindow
from workbench.runner import CancelToken, drive
from workbench.runs.row import BATCH, PREFILL_DECODE, Row
from workbench.runs.run import RunStatus
from workbench.runs.store import Store

SETTINGS = GapSettings(model="smollm2-135m", dtype="bfloat16", device="cpu", threads=1)


def driven(cancel: CancelToken, load: object = None, **about: tuple[int, ...]) -> list[Event]:
    said: list[Event] = []
    prompts, sequences = perturbations(SETTINGS, 8, **{"prompts": (16, 64), "batches": (1, 8), **about})
    with Store() as store:
        drive(perturbation(prompts, sequences, load or fake_load(), TimedWindow()), cancel, store, said.append)  # type: ignore[arg-type]
    return said


def a_reading(ttft_ms: Mapping[int, float], tpot_ms: Mapping[int, float]) -> Sentence:
    return reading([a_request(n, ttft_ms[n], tpot_ms[n]) for n in ttft_ms])[0]


def test_both_sweeps_are_of_the_same_model_device_and_output() -> None:
    prompts, sequences = perturbations(SETTINGS, 64)
    for each in (prompts, sequences):
        assert (each.model, each.dtype, each.device, each.threads) == ("smollm2-135m", "bfloat16", "cpu", 1)
    assert sequences.contexts == (64,)
    assert len(prompts.prompts) > 2
    assert len(sequences.batches) > 2


def test_prompts_longer_than_the_models_context_are_left_out(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "tiny")
    prompts, _ = perturbations(GapSettings(model=str(folder)), 8, prompts=(16, 64, 100_000))
    assert prompts.prompts == (16, 64)
    assert perturbations(GapSettings(model=str(folder)), 8, prompts=(100_000,))[0].prompts == (100_000,)


def test_each_sweep_is_kept_as_a_run_of_its_own_kind() -> None:
    said = driven(CancelToken())
    assert [event.run.kind for event in said if isinstance(event, Started)] == [PREFILL_DECODE, BATCH]
    with Store() as store:
        runs = store.runs()
        assert sorted((run.kind, run.status, run.rows) for run in runs) == [
            (BATCH, RunStatus.FINISHED, 2),
            (PREFILL_DECODE, RunStatus.FINISHED, 2),
        ]
    rows = [event.row for event in said if isinstance(event, RowMeasured)]
    assert [sentence.varied for sentence in reading(rows)][:2] == ["prompt", "sequences"]


def test_a_stop_in_the_first_sweep_begins_no_second() -> None:
    cancel = CancelToken()

    def stopping(prompt: int) -> None:
        if prompt == 64:
            cancel.cancel()

    said = driven(cancel, fake_load(on_request=stopping))
    assert [event.status for event in said if isinstance(event, Finished)] == [RunStatus.INTERRUPTED]
    assert [event.run.kind for event in said if isinstance(event, Started)] == [PREFILL_DECODE]


def test_an_error_in_the_second_sweep_leaves_the_first_finished() -> None:
    loads = iter((True, False))

    def load(planned: LoadPlan, cancel: CancelToken) -> LoadedModel:
        if not next(loads):
            raise OSError("the disk went away")
        loaded: FakeModel = fake_load()(planned, cancel)
        return loaded

    with pytest.raises(OSError, match="went away"):
        driven(CancelToken(), load)
    with Store() as store:
        assert sorted((run.kind, run.status) for run in store.runs()) == [
            (BATCH, RunStatus.FAILED),
            (PREFILL_DECODE, RunStatus.FINISHED),
        ]


def test_bad_settings_of_the_second_sweep_are_refused_before_the_first() -> None:
    with pytest.raises(SettingsError, match="batch"):
        driven(CancelToken(), batches=(0,))
    with Store() as store:
        assert store.runs() == []


def test_the_texts_prompts_act_on_prefill_and_past_a_thousand_tokens_on_the_cache() -> None:
    short = [n for n in TTFT_MS if n <= 1024]
    alone = a_reading({n: TTFT_MS[n] for n in short}, TPOT_MS)
    assert "acts on prefill alone, in proportion at the long end" in alone.text
    both = a_reading(TTFT_MS, TPOT_MS)
    assert "more than in proportion at the long end: attention's n²" in both.text
    assert "by more than the bytes of the cache, which make it 1.39 times" in both.text
    assert both.ttft_growth is not None
    assert both.ttft_growth.value == pytest.approx(6675 / 86)
    assert len(both.ttft_growth.inputs) == 2


def test_prompts_that_nothing_notices_lie_below_the_crossover() -> None:
    assert "below n*" in a_reading({1: 90.0, 8: 92.0}, {1: 90.0, 8: 90.0}).text


def test_few_tokens_more_for_the_same_fetch_are_less_than_in_proportion() -> None:
    assert "less than in proportion" in a_reading({16: 111.0, 64: 172.0}, {16: 90.0, 64: 84.5}).text


def test_a_slower_step_alone_is_the_caches() -> None:
    text = a_reading({16: 111.0, 4096: 120.0}, {16: 90.0, 4096: 125.0}).text
    assert "still waits for the weights" in text
    assert "with the bytes of the cache" in text


@pytest.mark.parametrize(
    ("batches", "words"),
    [
        ((1, 4), "hardly slow each other"),
        ((1, 2, 4, 8, 16, 32), "while each slows"),
        ((16, 32), "while each slows"),
    ],
)
def test_the_texts_sequences_share_then_slow_each_other(batches: tuple[int, ...], words: str) -> None:
    sentence = reading([a_step(2, b, STEP_MS[2][b]) for b in batches])[1]
    assert words in sentence.text
    assert "no time in a queue is in it" in sentence.text


def test_the_texts_longer_sequences_end_up_waiting_for_each_other() -> None:
    sentence = reading([a_step(256, b, STEP_MS[256][b]) for b in (16, 32)])[1]
    assert "they only wait for each other" in sentence.text
    assert sentence.total_growth is not None
    assert sentence.total_growth.value == pytest.approx(73.8 / 77.6, abs=0.001)


def test_other_load_is_said_with_the_reading() -> None:
    rows = [a_request(n, TTFT_MS[n], TPOT_MS[n], other_load=0.3, stolen_share=0.0) for n in (16, 64)]
    assert "measure again" in reading(rows)[-1].text
    assert len(reading([a_request(n, TTFT_MS[n], TPOT_MS[n], other_load=0.0) for n in (16, 64)])) == 2


@pytest.mark.parametrize("rows", [[], [a_request(64, 172.0, 84.5)]])
def test_what_was_not_measured_is_said(rows: list[Row]) -> None:
    prompt, sequences = reading(rows)
    assert "isn't known" in prompt.text
    assert "isn't known" in sequences.text


def test_repeats_that_spread_too_widely_are_said_to_tell_nothing() -> None:
    wide = {"ttft_low_ms": 60.0, "ttft_high_ms": 160.0}
    text = reading([a_request(16, 100.0, 90.0, **wide), a_request(256, 160.0, 90.0)])[0].text
    assert "TTFT is 1.60 times" in text
    assert "can't tell, by its repeats TTFT may be from 1.00 to 2.67 times" in text
    assert "acts on prefill" not in text
    noisy = {"tpot_low_ms": 60.0, "tpot_high_ms": 200.0}
    steps = reading([a_step(8, 1, 100.0, **noisy), a_step(8, 16, 130.0)])[1].text
    assert "the step takes 1.30 times as long" in steps
    assert "may be from 0.65 to 2.17 times" in steps
    held_up = reading([a_step(8, 1, 100.0), a_step(8, 16, 25.0)])[1].text
    assert "something else held the smaller batch up" in held_up
