"""What judgements are worth: calibration, informativeness, what could not be wrong, pairs, and prefetchers of no
family."""

from __future__ import annotations

import pytest

from setebench.judge import Answered, Judgement, Kind, Verdict, difference, judge, summary
from setebench.judge.calibration import calibration
from setebench.judge.proportion import proportion
from setebench.judge.questions import constant
from setebench.results import Finding, Outcome
from setebench.sim import spec
from setebench.sim.truth.parameters import truth


def latency(value: float, half: float = 0.1, parameter: str = "latency.l1") -> Finding:
    return Finding(parameter=parameter, value=value, low=value - half, high=value + half, unit="cycles")


def judged(found: Finding, truth: Finding, machine: str = "m") -> Judgement:
    (judgement,) = judge(machine, [found], [truth], frozenset({truth.parameter}))
    return judgement


TRUE = Finding(parameter="latency.l1", value=10.0, unit="cycles")


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"), [(95, 100, 0.888, 0.978), (0, 10, 0.0, 0.278), (1, 1, 0.207, 1.0)]
)
def test_a_share_has_the_interval_of_wilson(hits: int, trials: int, low: float, high: float) -> None:
    found = proportion(hits, trials)
    assert (found.low, found.high) == (pytest.approx(low, abs=0.001), pytest.approx(high, abs=0.001))


# -- calibration ----------------------------------------------------------------------------------------------------


def test_wide_intervals_are_judged_apart() -> None:
    """Ten narrow ones that miss don't hide among a hundred that hold everything."""
    narrow = [judged(latency(10.5), TRUE) for _ in range(10)]
    wide = [judged(latency(10.0, 5.0), TRUE) for _ in range(90)]
    found = calibration(narrow + wide)
    assert (found.narrow.hits, found.narrow.trials) == (0, 10)
    assert (found.wide.hits, found.wide.trials) == (90, 90)
    assert (found.continuous.hits, found.continuous.trials) == (90, 100)


def test_bounds_and_silence_are_not_asked() -> None:
    bound = Finding(parameter="latency.l1", value=9.0, low=9.0, high=9.0, unit="cycles", outcome=Outcome.AT_LEAST)
    silent = Finding(parameter="latency.l1", unit="cycles", outcome=Outcome.UNRESOLVED, reason="noise")
    found = calibration([judged(bound, TRUE), judged(silent, TRUE)])
    assert found.continuous.trials == 0 and found.without_interval == 0


def test_counts_and_categories_are_judged_by_their_errors() -> None:
    ways = Finding(parameter="cache.l1.ways", value=8, unit="ways")
    blocks = Finding(parameter="blocking.load", value="nonblocking", unit="string")
    wrong_ways = Finding(parameter="cache.l1.ways", value=7, unit="ways", low=7, high=9)
    found = calibration([judged(wrong_ways, ways), judged(ways, ways), judged(blocks, blocks)])
    assert (found.counts.hits, found.counts.trials) == (1, 2)
    assert (found.categories.hits, found.categories.trials) == (0, 1)
    assert found.continuous.trials == 0


# -- how much answers say -------------------------------------------------------------------------------------------


def test_widths_and_near_bounds() -> None:
    true_count = Finding(parameter="mshr.l1.demand", value=10, unit="entries")
    bounds = [
        Finding(parameter="mshr.l1.demand", value=value, unit="entries", outcome=Outcome.AT_LEAST)
        for value in (1, 8, 10)
    ]
    judgements = [judged(bound, true_count) for bound in bounds]
    judgements += [judged(latency(10.0, half), TRUE) for half in (0.5, 1.0, 4.0)]
    document = summary(1, {"m": 1}, judgements)
    assert document["parameters"]["mshr.l1.demand"]["at_least"] == 3
    assert document["parameters"]["mshr.l1.demand"]["near_bounds"] == document["totals"]["near_bounds"] == 2
    assert document["parameters"]["latency.l1"]["median_width"] == pytest.approx(0.2)
    assert document["parameters"]["latency.l1"]["kind"] == Kind.CONTINUOUS
    assert document["parameters"]["mshr.l1.demand"]["kind"] == Kind.COUNT


# -- what could not be wrong, and what was not judged -----------------------------------------------------------------


def answered(machine: str, truths: list[Finding], findings: list[Finding], left_open: tuple[str, ...] = ()) -> Answered:
    return Answered(machine=machine, findings=findings, truths=truths, left_open=frozenset(left_open))


def test_a_parameter_with_one_value_everywhere_is_listed() -> None:
    line = Finding(parameter="cache.l1.line_size", value=64, unit="bytes")
    once = Finding(parameter="latency.l4", value=90.0, unit="cycles")
    first, second = (Finding(parameter="cache.l1.ways", value=value, unit="ways") for value in (8, 12))
    answers = [answered("a", [line, first, once], []), answered("b", [line, second], [])]
    assert constant(answers) == [{"parameter": "cache.l1.line_size", "truth": 64, "machines": 2}]


# -- two versions ---------------------------------------------------------------------------------------------------


def stand(machine: str, **verdicts: Verdict) -> list[Judgement]:
    return [Judgement(machine=machine, parameter=name, verdict=verdict) for name, verdict in verdicts.items()]


def test_a_gain_on_every_machine_is_a_difference_with_an_interval() -> None:
    right, wrong = Verdict.RIGHT, Verdict.WRONG
    old = [each for n in range(8) for each in stand(f"m{n}", a=wrong, b=right, c=right, d=right)]
    new = [each for n in range(8) for each in stand(f"m{n}", a=right if n else wrong, b=right, c=right, d=right)]
    found = difference(old, new)
    shift = found["fractions"]["right"]
    assert shift["difference"] == pytest.approx(7 / 8 / 4)
    assert 0 < shift["low"] < shift["difference"] < shift["high"]
    assert found["fractions"]["wrong"]["difference"] == pytest.approx(-7 / 8 / 4)
    assert found["parameters"] == {"a": {"wrong -> right": 7}}
    assert found["machines"] == 8


def test_a_difference_is_paired() -> None:
    """Machines that differ a lot from each other, but not from version to version."""
    right, wrong = Verdict.RIGHT, Verdict.WRONG
    hard, easy = stand("hard", a=wrong, b=wrong), stand("easy", a=right, b=right)
    same = difference(hard + easy, hard + easy)
    assert same["fractions"]["right"] == {"difference": 0.0, "low": None, "high": None}, "no spread, no interval"
    only_old = difference(hard + easy, hard)
    assert only_old["machines"] == 1, "a machine that one of them lost is left out"


def test_a_bound_gained_is_no_right_answer_gained() -> None:
    bound = Judgement(machine="m", parameter="a", verdict=Verdict.RIGHT, outcome=Outcome.AT_LEAST.value)
    found = difference(stand("m", a=Verdict.UNRESOLVED), [bound])
    assert found["parameters"] == {"a": {"unresolved -> at_least": 1}}
    assert found["fractions"]["right"]["difference"] == 0.0


# -- prefetchers without a family before the judge -------------------------------------------------------------------


LEVELS = (spec.Level(sets=64, ways=8, latency_cycles=4.0), spec.Level(sets=1024, ways=8, latency_cycles=14.0))
START = "prefetcher.l2.other."


def machine(*prefetchers: spec.AnyPrefetcher) -> spec.Machine:
    return spec.Machine(name="m", levels=LEVELS, prefetchers=prefetchers)


def judged_of(of: spec.Machine, *findings: Finding) -> dict[str, Judgement]:
    truths = truth(of)
    known = frozenset(each.parameter for each in truth(machine(spec.AccessMap(level=2), spec.Streamer(level=2))))
    return {each.parameter: each for each in judge("m", findings, truths, known)}


OTHERS = [spec.BestOffset(level=2), spec.AccessMap(level=2), spec.SignaturePath(level=2)]


@pytest.mark.parametrize("prefetcher", OTHERS)
def test_what_is_not_reported_is_open_and_the_truth_itself_is_right(prefetcher: spec.AnyPrefetcher) -> None:
    of = machine(prefetcher)
    names = {each.parameter for each in truth(of) if each.parameter.startswith(START)}
    assert {START + name for name in ("present", "patterns", "lead", "lead_after_runs", "trained_by")} <= names
    open_ones, right = judged_of(of), judged_of(of, *truth(of))
    assert {open_ones[name].verdict for name in names} == {Verdict.UNRESOLVED}
    assert {right[name].verdict for name in names} == {Verdict.RIGHT}


@pytest.mark.parametrize("prefetcher", OTHERS)
def test_a_family_in_their_place_is_wrong(prefetcher: spec.AnyPrefetcher) -> None:
    claims = [
        Finding(parameter="prefetcher.l2.stream.present", value=True, unit="bool"),
        Finding(parameter="prefetcher.l2.stream.degree", value=1, unit="lines"),
    ]
    found = judged_of(machine(prefetcher), *claims)
    assert {found[claim.parameter].verdict for claim in claims} == {Verdict.WRONG}


def test_other_prefetchers_where_there_are_none_are_wrong() -> None:
    claim = Finding(parameter=START + "present", value=True, unit="bool")
    assert judged_of(machine(spec.Streamer(level=2)), claim)[claim.parameter].verdict is Verdict.WRONG


def test_a_lead_of_one_line_more_is_wrong() -> None:
    of = machine(spec.Streamer(level=2, leads_by="new_line", degree=2))
    name = "prefetcher.l2.stream.lead"
    true = next(each for each in truth(of) if each.parameter == name)
    assert isinstance(true.value, list)
    other = Finding(parameter=name, value=[*true.value[:-1], 99], unit="list")
    assert judged_of(of, other)[name].verdict is Verdict.WRONG
    assert judged_of(of, true)[name].verdict is Verdict.RIGHT
