"""What counts as right, wrong and unresolved: every rule of docs/parameters.md, "The score document"; noise, and whose
judgements are whose."""

from __future__ import annotations

from typing import Any

import pytest

from setebench.judge import Judgement, Verdict, judge
from setebench.results import Finding, Outcome
from setebench.score import NOISES, Answer, judge_all, with_noise
from setebench.sim import spec
from setebench.sim.files.loader import load
from setebench.sim.truth.parameters import truth

RIGHT, WRONG, UNRESOLVED = Verdict.RIGHT, Verdict.WRONG, Verdict.UNRESOLVED


def one(reported: Finding | None, truth: Finding) -> Judgement:
    """The judgement of a single finding."""
    judged = judge("m", [reported] if reported else [], [truth], frozenset({truth.parameter}))
    assert len(judged) == 1 and judged[0].machine == "m" and judged[0].parameter == truth.parameter
    return judged[0]


def verdict(value: Any, truth: Any, unit: str = "", **reported: Any) -> Verdict:
    """The verdict on a value reported, and true, in a unit."""
    return one(
        Finding(parameter="p", value=value, unit=unit, **reported), Finding(parameter="p", value=truth, unit=unit)
    ).verdict


@pytest.mark.parametrize(
    ("value", "truth", "unit", "expected"),
    [
        (10, 10, "entries", RIGHT),
        (11, 10, "entries", WRONG),
        ("blocking", "nonblocking", "", WRONG),
        (True, False, "", WRONG),
        (False, True, "", WRONG),
        (["load"], ["load", "store"], "", WRONG),
        ("l1", 1, "", WRONG),
        (True, 1.0, "", RIGHT),  # one of Python's equalities
        (4.19, 4.0, "cycles", RIGHT),
        (4.21, 4.0, "cycles", WRONG),
        (314.9, 300.0, "cycles", RIGHT),  # within 5 %
        (315.1, 300.0, "cycles", WRONG),
        (4.5, 4.0, "ns", WRONG),
        (10.6, 10.0, "GB/s", WRONG),
        (1.32, 1.25, "cycles/tick", WRONG),
    ],
)
def test_counts_must_be_equal_and_rates_may_be_5_percent_off(
    value: Any, truth: Any, unit: str, expected: Verdict
) -> None:
    assert verdict(value, truth, unit) is expected


@pytest.mark.parametrize(
    ("parameter", "value", "truth", "expected"),
    [
        ("latency.l1", 4.29, 4.0, RIGHT),  # within 0.3 cycles
        ("latency.l1", 4.31, 4.0, WRONG),
        ("latency.l2.vector16", 20.61, 20.0, WRONG),
        ("tlb.l1.miss_penalty.4k", 6.69, 7.0, WRONG),
        ("latency.l3", 63.1, 60.0, WRONG),
        ("page_fault.minor.4k", 1049.0, 1000.0, RIGHT),
    ],
)
def test_what_the_core_clocks_is_held_to_3_percent_or_a_third_of_a_cycle(
    parameter: str, value: float, truth: float, expected: Verdict
) -> None:
    reported, true = (Finding(parameter=parameter, value=each, unit="cycles") for each in (value, truth))
    assert one(reported, true).verdict is expected


@pytest.mark.parametrize(("value", "expected"), [(8, RIGHT), (10, RIGHT), (11, WRONG)])
def test_at_least_may_not_exceed_the_truth(value: int, expected: Verdict) -> None:
    assert verdict(value, 10, "entries", outcome=Outcome.AT_LEAST) is expected


def finding(outcome: Outcome, value: Any = None) -> Finding:
    return Finding(parameter="p", value=value, outcome=outcome, reason="because")


@pytest.mark.parametrize(
    ("reported", "truth", "expected"),
    [
        (finding(Outcome.ABSENT, False), finding(Outcome.ABSENT, False), RIGHT),
        (finding(Outcome.ABSENT, False), finding(Outcome.MEASURED, True), WRONG),
        (finding(Outcome.ABSENT, 0), finding(Outcome.MEASURED, 16), WRONG),
        (finding(Outcome.MEASURED, True), finding(Outcome.ABSENT, False), WRONG),
    ],
)
def test_absent_is_right_where_there_is_none(reported: Finding, truth: Finding, expected: Verdict) -> None:
    assert one(reported, truth).verdict is expected


@pytest.mark.parametrize("outcome", [Outcome.UNRESOLVED, Outcome.UNAVAILABLE])
def test_no_answer_is_unresolved_and_keeps_its_outcome(outcome: Outcome) -> None:
    judged = one(finding(outcome), finding(Outcome.MEASURED, 4))
    assert (judged.verdict, judged.outcome, judged.value, judged.truth) == (UNRESOLVED, outcome.value, None, 4)
    assert judged.covered is None


# -- parameters that this machine lacks ----------------------------------------------------------------------------

L3 = "latency.l3"


@pytest.mark.parametrize("outcome", [Outcome.MEASURED, Outcome.AT_LEAST])
def test_a_value_for_what_the_machine_lacks_is_wrong(outcome: Outcome) -> None:
    judged = judge("m", [Finding(parameter=L3, value=40.0, unit="cycles", outcome=outcome)], [], frozenset({L3}))
    assert [(j.parameter, j.verdict, j.value, j.truth) for j in judged] == [(L3, WRONG, 40.0, None)]


def test_what_the_truth_leaves_open_is_not_judged() -> None:
    """A rate that the machine has, though its truth can't say how much; but not one of a level that it lacks."""
    of_l2, of_l3 = (f"bandwidth.{level}.load.64.threads_1" for level in ("l2", "l3"))
    reported = [Finding(parameter=name, value=40.0, unit="GB/s") for name in (of_l2, of_l3)]
    judged = judge("m", reported, [], frozenset({of_l2, of_l3}), frozenset({of_l2}))
    assert [(each.parameter, each.verdict) for each in judged] == [(of_l3, WRONG)]


# -- intervals, and truths that are a range ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "covered"), [(3.9, 4.2, True), (4.0, 4.0, True), (4.1, 4.2, False), (3.7, 3.95, False)]
)
def test_coverage_is_whether_the_interval_holds_the_truth(low: float, high: float, covered: bool) -> None:
    reported = Finding(parameter="p", value=(low + high) / 2, unit="cycles", low=low, high=high)
    judged = one(reported, Finding(parameter="p", value=4.0, unit="cycles"))
    assert judged.covered is covered and judged.verdict is RIGHT


@pytest.mark.parametrize(
    ("value", "expected"), [(70.0, RIGHT), (80.0, RIGHT), (90.0, RIGHT), (66.6, RIGHT), (94.4, RIGHT), (95.0, WRONG)]
)
def test_a_rate_may_lie_anywhere_in_a_range_that_is_not_known_better(value: float, expected: Verdict) -> None:
    truth = Finding(parameter="p", value=80.0, unit="cycles", low=70.0, high=90.0)
    judged = one(Finding(parameter="p", value=value, unit="cycles", low=value - 1, high=value + 1), truth)
    assert judged.verdict is expected
    assert judged.covered is (69.0 <= value <= 91.0)


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (1.0, 0.9, 1.1, RIGHT),
        (1.0, 0.919, 1.081, RIGHT),  # 80 % of it
        (0.9, 0.8, 1.1, RIGHT),  # 1.5 times as wide
        (1.0, 0.999, 1.001, WRONG),
    ],
)
def test_what_varied_in_the_run_is_told_by_an_interval(
    value: float, low: float | None, high: float | None, expected: Verdict
) -> None:
    truth = Finding(parameter="p", value=1.0, unit="cycles/tick", low=0.9, high=1.1)
    assert one(Finding(parameter="p", value=value, unit="cycles/tick", low=low, high=high), truth).verdict is expected


# -- the document --------------------------------------------------------------------------------------------------


# -- noise of scored machines, and which judgements a scenario answers for -------------------------------------------


MACHINES = ("plain", "zen-like", "random:3")


def true_values(machine: spec.Machine) -> dict[str, tuple[object, ...]]:
    return {finding.parameter: (finding.value, finding.low, finding.high) for finding in truth(machine)}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", MACHINES)
def test_noise_changes_nothing_that_is_true_of_a_machine(name: str, noise: str) -> None:
    machine = load(name)
    noisy = with_noise(machine, noise)
    before, after = true_values(machine), true_values(noisy)
    # what is reported in ticks or seconds of a core's cycles is a range where the core's clock drifts: that is noise
    of_clock = ("clock.cycles_per_tick", "clock.overhead.", "bandwidth.", "loaded_latency.")
    drifting = {p for p in before if p.startswith(of_clock)}
    assert len(drifting) > 1
    assert {p: v[: 1 if p in drifting else 3] for p, v in after.items()} == {
        p: v[: 1 if p in drifting else 3] for p, v in before.items()
    }


def test_only_parameters_of_the_scenario_are_judged() -> None:
    truths = [Finding(parameter=p, value=4.0, unit="cycles") for p in ("latency.l1", "tlb.l1.miss_penalty.4k")]
    answer = Answer(machine="m", findings=[truths[0]], truths=truths, failures=[])
    assert [j.parameter for j in judge_all([answer], ("latency.l",))] == ["latency.l1"]
    assert [j.parameter for j in judge_all([answer], None)] == ["latency.l1", "tlb.l1.miss_penalty.4k"]
    assert [j.parameter for j in judge_all([answer], None, ("tlb.",))] == ["latency.l1"]


def test_what_any_machine_has_is_known_of_all() -> None:
    """A third level reported on a machine with two is wrong, because another machine has one."""
    level = Finding(parameter="latency.l3", value=40.0, unit="cycles")
    has = Answer(machine="three", findings=[level], truths=[level], failures=[])
    lacks = Answer(machine="two", findings=[level], truths=[], failures=[])
    judged = [(j.machine, j.verdict.value) for j in judge_all([has, lacks], None)]
    assert judged == [("three", "right"), ("two", "wrong")]
