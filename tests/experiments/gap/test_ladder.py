"""The ladder's arithmetic on passes whose every part takes a known time: what is planted is found in its own rung."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.fakes import FAKE_PARTS_S, FakePass
from workbench.experiments.gap.floors import SlowMemory, Work, floor
from workbench.experiments.gap.ladder import FRAMEWORK, Rates, Round, ladder
from workbench.experiments.gap.parts import InPlace, Part, Sample
from workbench.experiments.gap.verdict import (
    MORE_POINTS,
    MORE_ROUNDS,
    Kind,
    kinds,
    largest,
    suspects,
    verdict,
    would_tell,
)
from workbench.quantity import Origin, Quantity, Unit, explain
from workbench.runs.ladder import BELOW_QUIET, BELOW_VENDOR, DECODE, OTHER_LOAD, SPLIT_MEMORY, Ladder, Rung

B, C = 20e9, 1e12
WORK: Mapping[Part, Work] = {
    Part.WEIGHTS: Work(2e9, 1e9),
    Part.HEAD: Work(0.4e9, 0.2e9),
    Part.ATTENTION: Work(0.1e9, 0.1e9),
}
"""Floors of 100, 20 and 5 ms at B."""


def rate(value: float, unit: Unit = Unit.BYTES_PER_SECOND, origin: Origin = Origin.MEASURED) -> Quantity:
    return Quantity("a rate", value, unit, origin)


RATES = Rates(rate(B), rate(C, Unit.FLOP_PER_SECOND), C)


def one_round(full: FakePass, short: FakePass | None = None, narrow_s: float | None = None, read: float = B) -> Round:
    """A round as the experiment takes it, of a pass without noise."""
    wholes = tuple(full.whole() for _ in range(1 + len(Part)))
    return Round(
        wholes=wholes,
        alone={part: full.alone(part) for part in Part},
        left_out_s={part: full.whole().own_s - full.without([part]).own_s for part in Part},
        in_place=full.in_place(),
        empty=full.without(tuple(Part)),
        short_in_place=None if short is None else short.in_place(),
        short_empty=None if short is None else short.without(tuple(Part)),
        narrow_in_place=None if narrow_s is None else InPlace(Sample(narrow_s), dict.fromkeys(Part, 0.0)),
        B=read,
    )


def found(full: FakePass, rates: Rates = RATES, read: float = B) -> Ladder:
    return ladder(DECODE, 16, 1, WORK, [one_round(full, narrow_s=full.framework_s, read=read)] * 5, rates)


def rungs(of: Ladder) -> dict[str, Rung]:
    return {rung.name: rung for rung in of.terms}


PLAIN = FakePass(FAKE_PARTS_S, 0.020)


def test_each_part_is_what_it_takes_above_its_floor() -> None:
    times = {name: rung.time.value for name, rung in rungs(found(PLAIN)).items()}
    assert times == {
        Part.WEIGHTS: pytest.approx(0.100),
        Part.HEAD: pytest.approx(0.020),
        Part.ATTENTION: pytest.approx(0.005),
        Part.CACHE: pytest.approx(0.008),
        Part.ELEMENTWISE: pytest.approx(0.006),
        FRAMEWORK: pytest.approx(0.020),
        Part.SAMPLING: pytest.approx(0.001),
        OTHER_LOAD: pytest.approx(0.0),
        BELOW_QUIET: pytest.approx(0.0),
        "remainder": pytest.approx(0.0),
    }


def test_ceiling_rungs_and_remainder_are_the_measured_time_exactly() -> None:
    noisy = [
        one_round(
            FakePass({part: s * (1 + 0.1 * i) for part, s in FAKE_PARTS_S.items()}, 0.02 + 0.003 * i), narrow_s=0.011
        )
        for i in range(7)
    ]
    of = ladder(DECODE, 16, 1, WORK, noisy, RATES)
    assert of.ceiling.value + sum(rung.time.value for rung in of.terms) == pytest.approx(of.measured.value, rel=1e-12)
    assert all(rung.low_s <= rung.time.value <= rung.high_s for rung in of.terms)


PLANTS = {
    "linear layers run twice": ({Part.WEIGHTS: 0.200}, 0.0, Part.WEIGHTS, 0.200),
    "a head run twice": ({Part.HEAD: 0.040}, 0.0, Part.HEAD, 0.040),
    "a slower attention": ({Part.ATTENTION: 0.090}, 0.0, Part.ATTENTION, 0.090),
    "a second copy of the cache": ({Part.CACHE: 0.030}, 0.0, Part.CACHE, 0.030),
    "a slow norm": ({Part.ELEMENTWISE: 0.015}, 0.0, Part.ELEMENTWISE, 0.015),
    "a delay in every step": ({}, 0.050, FRAMEWORK, 0.050),
    "a slow choice of the token": ({Part.SAMPLING: 0.025}, 0.0, Part.SAMPLING, 0.025),
}


@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_planted_is_found_in_its_own_rung_and_in_no_other(plant: str) -> None:
    more, delay_s, name, planted_s = PLANTS[plant]
    slowed = FakePass({part: s + more.get(part, 0.0) for part, s in FAKE_PARTS_S.items()}, 0.020 + delay_s)
    before, after = rungs(found(PLAIN)), rungs(found(slowed))
    grown = {rung: after[rung].time.value - before[rung].time.value for rung in after}
    assert grown.pop(name) == pytest.approx(planted_s)
    assert list(grown.values()) == pytest.approx([0.0] * len(grown), abs=1e-9)


def test_a_wait_for_cores_is_other_load_and_in_no_part() -> None:
    before, after = rungs(found(PLAIN)), rungs(found(replace(PLAIN, waited_s=0.070)))
    grown = {rung: after[rung].time.value - before[rung].time.value for rung in after}
    assert grown.pop(OTHER_LOAD) == pytest.approx(0.070)
    assert list(grown.values()) == pytest.approx([0.0] * len(grown), abs=1e-9)


def test_a_neighbour_that_takes_bandwidth_lowers_the_rates_and_is_no_wait_for_cores() -> None:
    slower = {part: s * (2 if part in WORK else 1) for part, s in FAKE_PARTS_S.items()}
    before, after = rungs(found(PLAIN)), rungs(found(FakePass(slower, 0.020), read=B / 2))
    assert after[BELOW_QUIET].time.value == pytest.approx(0.125)
    assert after[OTHER_LOAD].time.value == pytest.approx(0.0)
    # What the kernels are slower than memory by has doubled as well: they read through the same bus.
    assert after[Part.WEIGHTS].time.value == pytest.approx(2 * before[Part.WEIGHTS].time.value)


def test_rates_that_lie_within_their_own_spread_of_the_quiet_box_are_not_resolved() -> None:
    reads = [0.90, 0.97, 1.0, 0.93, 0.95, 0.91, 0.98, 0.94]
    rounds = [one_round(PLAIN, narrow_s=0.020, read=share * B) for share in reads]
    near = rungs(ladder(DECODE, 16, 1, WORK, rounds, RATES))[BELOW_QUIET]
    assert near.time.value == pytest.approx(0.125 * (1 / 0.945 - 1))
    assert not near.resolved
    far = rungs(ladder(DECODE, 16, 1, WORK, rounds, replace(RATES, quiet_read=rate(2 * B))))[BELOW_QUIET]
    assert far.resolved
    assert far.high_s - far.low_s > 0.01 * far.time.value


def test_the_bs_of_a_ladder_have_names_of_their_own() -> None:
    quiet = replace(RATES, quiet_read=replace(rate(2 * B), symbol="B_quiet"))
    of = found(PLAIN, quiet)
    assert "/ B_quiet" in of.ceiling.formula
    lines = "\n".join(explain(rungs(of)[Part.WEIGHTS].time))
    assert "bytes / B_run" in lines
    assert "B_run median rate of this run's rounds = 20.0 GB/s" in lines


def test_rates_below_the_vendors_are_a_rung_of_their_own() -> None:
    vendor = replace(RATES, vendor_read=rate(2 * B, origin=Origin.VENDOR))
    before, after = found(PLAIN), found(PLAIN, vendor)
    assert after.ceiling.value == pytest.approx(before.ceiling.value / 2)
    assert rungs(after)[BELOW_VENDOR].time.value == pytest.approx(before.ceiling.value / 2)
    assert BELOW_VENDOR not in rungs(before)
    assert rungs(after)["remainder"].time.value == pytest.approx(rungs(before)["remainder"].time.value, abs=1e-12)


def test_what_no_experiment_shows_stays_in_the_remainder() -> None:
    of = one_round(PLAIN, narrow_s=0.020)
    longer = replace(of, wholes=tuple(replace(sample, wall_s=sample.wall_s + 0.030) for sample in of.wholes))
    left = ladder(DECODE, 16, 1, WORK, [longer] * 5, RATES).remainder
    assert left.time.value == pytest.approx(0.030)


def test_ways_that_disagree_widen_the_interval_and_the_middle_one_stands() -> None:
    of = one_round(PLAIN, narrow_s=0.020)
    apart = replace(of, left_out_s={**of.left_out_s, Part.WEIGHTS: 0.260})
    rung = rungs(ladder(DECODE, 16, 1, WORK, [apart] * 5, RATES))[Part.WEIGHTS]
    assert (rung.low_s, rung.time.value, rung.high_s) == pytest.approx((0.100, 0.100, 0.160))
    assert "260.00" in rung.evidence


def test_a_device_that_works_behind_the_clock_is_measured_two_ways() -> None:
    rung = rungs(found(replace(PLAIN, clocks_in_place=False)))[Part.WEIGHTS]
    assert [way.name for way in rung.time.inputs] == ["alone, replayed", "left out of the pass", "its floor"]
    assert rung.time.value == pytest.approx(0.100)


def test_elementwise_work_between_the_calls_is_told_from_the_framework_by_a_short_pass() -> None:
    """Of a prefill: what is between the parts grows with the tokens, Python does not."""
    full, short = FakePass(FAKE_PARTS_S, 0.060), FakePass(dict.fromkeys(Part, 0.0), 0.020)
    of = rungs(ladder(DECODE, 16, 1, WORK, [one_round(full, short, narrow_s=0.020)] * 5, RATES))
    assert of[FRAMEWORK].time.value == pytest.approx(0.020)
    assert of[Part.ELEMENTWISE].time.value == pytest.approx(0.006 + 0.040)
    assert of["remainder"].time.value == pytest.approx(0.0, abs=1e-12)


def test_an_interval_across_zero_is_not_resolved() -> None:
    shaky = [
        one_round(FakePass({**FAKE_PARTS_S, Part.SAMPLING: 0.0}, 0.020), narrow_s=0.020),
        one_round(FakePass({**FAKE_PARTS_S, Part.SAMPLING: 0.002}, 0.020), narrow_s=0.020),
    ] * 4
    of = rungs(ladder(DECODE, 16, 1, WORK, shaky, RATES))
    assert not of[Part.SAMPLING].resolved
    assert of[Part.WEIGHTS].resolved


def test_the_binding_clock_of_the_whole_sets_every_floor() -> None:
    by_bytes, by_maths = floor(WORK, B, C), floor(WORK, B, 1e10)
    assert not by_bytes.by_maths
    assert by_bytes.total_s == pytest.approx(2.5e9 / B)
    assert by_maths.by_maths
    assert by_maths.parts_s[Part.WEIGHTS] == pytest.approx(1e9 / 1e10)
    assert by_maths.total_s == pytest.approx(1.3e9 / 1e10)


@pytest.mark.parametrize(("times", "expected"), [(1.2, Kind.PHYSICS), (1.9, Kind.ORDINARY), (2.1, Kind.SYMPTOM)])
def test_the_verdict_tells_physics_from_a_symptom(times: float, expected: Kind) -> None:
    parts = {part: (0.0 if part is not Part.WEIGHTS else 0.125 * times) for part in Part}
    of = found(FakePass(parts, 0.0))
    assert kinds(of) == (expected,)
    rung = largest(of)
    assert rung is not None
    assert rung.name == Part.WEIGHTS
    assert suspects(of)


def test_the_verdict_leaves_open_what_the_interval_leaves_open() -> None:
    of = found(FakePass({part: (0.0 if part is not Part.WEIGHTS else 0.125 * 1.9) for part in Part}, 0.0))
    top = of.ceiling.value
    assert kinds(replace(of, low_s=1.8 * top, high_s=1.99 * top)) == (Kind.ORDINARY,)
    unsure = replace(of, low_s=1.8 * top, high_s=2.1 * top)
    assert kinds(unsure) == (Kind.ORDINARY, Kind.SYMPTOM)
    assert "can't tell an ordinary gap from a symptom, the interval is 1.80 to 2.10 times; " in verdict(unsure)
    assert "First suspect: " in verdict(unsure)


def test_the_measured_time_s_interval_is_of_the_rounds() -> None:
    rounds = [one_round(FakePass(dict.fromkeys(Part, 0.01 * (1 + 0.1 * i)), 0.0)) for i in range(3)]
    of = ladder(DECODE, 16, 1, WORK, rounds, RATES)
    assert of.low_s is not None
    assert of.high_s is not None
    assert of.low_s < of.measured.value < of.high_s
    assert ladder(DECODE, 16, 1, WORK, rounds[:1], RATES).low_s is None


def test_no_time_is_measured_below_none_however_uneven_its_rounds() -> None:
    rounds = [one_round(FakePass(dict.fromkeys(Part, 0.01 * (1 + 5 * i)), 0.0)) for i in range(2)]
    assert ladder(DECODE, 16, 1, WORK, rounds, RATES).low_s == 0.0


def test_no_rounds_are_no_ladder() -> None:
    with pytest.raises(ValueError, match="at least one round"):
        ladder(DECODE, 16, 1, WORK, [], RATES)


def test_weights_in_a_second_memory_have_a_rung_and_are_in_no_other() -> None:
    slow = SlowMemory({Part.WEIGHTS: 0.25}, rate(B / 8), "a link")
    added_s = 0.25 * WORK[Part.WEIGHTS].bytes * (8 / B - 1 / B)
    slower = FakePass({**FAKE_PARTS_S, Part.WEIGHTS: FAKE_PARTS_S[Part.WEIGHTS] + added_s}, 0.020)
    before, after = found(PLAIN), found(slower, replace(RATES, slow=slow))
    split = rungs(after)[SPLIT_MEMORY]
    assert split.time.value == pytest.approx(added_s)
    for name, rung in rungs(before).items():
        assert rungs(after)[name].time.value == pytest.approx(rung.time.value, abs=1e-9)
    assert after.ceiling.value == before.ceiling.value
    lines = list(explain(split.time))
    assert "[arithmetic]  W_slow / B_slow − W_slow / B_fast" in lines[0]
    assert "a link" in split.evidence
    assert any("W_fast / B_fast + W_slow / B_slow" in line for line in explain(rungs(after)[Part.WEIGHTS].time))


def test_the_verdict_names_a_second_cause_where_the_intervals_leave_open_which_is_the_largest() -> None:
    plain = found(PLAIN)
    most = largest(plain)
    assert most is not None
    assert f"{most.name} cost most, " in verdict(plain)
    second = max((r for r in plain.rungs if r is not most and r.resolved), key=lambda rung: rung.time.value)
    wide = replace(second, low_s=second.time.value / 2, high_s=2 * most.time.value)
    said = verdict(replace(plain, rungs=tuple(wide if rung is second else rung for rung in plain.rungs)))
    assert f"can't tell what cost most: {most.name}, " in said
    assert f" or {second.name}, " in said
    assert f"({wide.low_s * 1e3:,.1f} to {wide.high_s * 1e3:,.1f})" in said
    assert f"the cheapest that would tell: {MORE_ROUNDS}" in said


def test_what_would_tell_two_causes_apart_moves_one_of_them_alone() -> None:
    def a_rung(name: str, *ways: float) -> Rung:
        inputs = tuple(Quantity(f"way {way}", way, Unit.SECONDS, Origin.MEASURED) for way in ways)
        time = Quantity(name, max(ways), Unit.SECONDS, Origin.MEASURED, inputs=inputs)
        return Rung(name, time, min(ways), max(ways), "")

    def told(*of: Rung) -> str:
        return would_tell(replace(found(PLAIN), rungs=of))

    framework, norms = a_rung(FRAMEWORK, 0.00245, 0.00574, 0.00276), a_rung(Part.ELEMENTWISE, 0.003, 0.0056, 0.004)
    assert "eight times the batch" in told(framework, norms)
    assert "preallocated-cache" in told(framework, a_rung(Part.CACHE, 0.003, 0.005))
    assert "half the context" in told(a_rung(Part.ATTENTION, 0.003, 0.006), norms)
    assert "smaller dtype" in told(a_rung(Part.WEIGHTS, 0.003, 0.006), framework)
    assert "nothing else runs" in told(a_rung(OTHER_LOAD, 0.004), norms)
    assert told(framework) == ""
    assert would_tell(replace(found(PLAIN), rungs=(framework, norms), rounds=0)) == MORE_POINTS


def test_of_the_framework_the_time_in_place_stands_and_its_evidence_says_why() -> None:
    of = one_round(PLAIN, narrow_s=0.002)
    short = InPlace(Sample(0.0055), dict.fromkeys(Part, 0.0))
    apart = replace(of, empty=Sample(0.0025), short_in_place=short)
    rung = rungs(ladder(DECODE, 16, 1, WORK, [apart] * 5, RATES))[FRAMEWORK]
    assert rung.time.value == pytest.approx(0.0055)
    assert "stands rather than the middle one: run without the kernels" in rung.evidence
