"""What counts as right, wrong and unresolved: every rule of docs/parameters.md, "The score document"; noise, and whose
judgements are whose."""

from __future__ import annotations

from typing import Any

import pytest

from setebench.judge import Judgement, Verdict, judge
from setebench.results import Finding, Outcome
from setebench.score import Answer, judge_all

RIGHT, WRONG, UNRESOLVED = Verdict.RIGHT, Verdict.WRONG, Verdict.UNRESOLVED
AT_LEAST, ABSENT = {"outcome": Outcome.AT_LEAST}, {"outcome": Outcome.ABSENT}
VARIED = {"value": 1.0, "low": 0.9, "high": 1.1}


def one(reported: Finding | None, true: Finding) -> Judgement:
    """The judgement of a single finding."""
    (judged,) = judge("m", [reported] if reported else [], [true], frozenset({true.parameter}))
    assert judged.machine == "m" and judged.parameter == true.parameter
    return judged


def finding(value: Any, unit: str = "", parameter: str = "p", **more: Any) -> Finding:
    own = value if isinstance(value, dict) else {"value": value}
    return Finding(**{"parameter": parameter, "unit": unit, **own, **more})


@pytest.mark.parametrize(
    ("value", "truth", "unit", "expected"),
    [
        (10, 10, "entries", RIGHT),
        (11, 10, "entries", WRONG),
        ("blocking", "nonblocking", "", WRONG),
        (["load"], ["load", "store"], "", WRONG),
        (315.1, 300.0, "cycles", WRONG),  # within 5 %
        (10.4, 10.0, "GB/s", RIGHT),
        ({"value": 10, **AT_LEAST}, 10, "entries", RIGHT),
        ({"value": 11, **AT_LEAST}, 10, "entries", WRONG),
        ({"value": 4, **AT_LEAST}, {"value": 0, **ABSENT}, "entries", WRONG),
        ({"value": 0, **ABSENT}, {"value": False, **ABSENT}, "", RIGHT),
        (True, {"value": False, **ABSENT}, "", WRONG),
        (70.0, {"value": 80.0, "low": 70.0, "high": 90.0}, "cycles", RIGHT),  # a range that is not known better
        (95.0, {"value": 80.0, "low": 70.0, "high": 90.0}, "cycles", WRONG),
        ({"value": 1.0, "low": 0.919, "high": 1.081}, VARIED, "cycles/tick", RIGHT),  # 80 % of what varied
        ({"value": 1.0, "low": 0.925, "high": 1.075}, VARIED, "cycles/tick", WRONG),
        ({"value": 0.9, "low": 0.79, "high": 1.1}, VARIED, "cycles/tick", WRONG),  # 1.5 times as wide
    ],
)
def test_every_rule(value: Any, truth: Any, unit: str, expected: Verdict) -> None:
    assert one(finding(value, unit), finding(truth, unit)).verdict is expected


@pytest.mark.parametrize(
    ("parameter", "value", "truth", "expected"),
    [
        ("latency.l1", 4.29, 4.0, RIGHT),  # within 0.3 cycles
        ("latency.l1", 4.31, 4.0, WRONG),
        ("tlb.l1.miss_penalty.4k", 6.69, 7.0, WRONG),
        ("latency.l3", 63.0, 60.0, RIGHT),
    ],
)
def test_what_the_core_clocks_is_held_to_3_percent_or_a_third_of_a_cycle(
    parameter: str, value: float, truth: float, expected: Verdict
) -> None:
    assert one(finding(value, "cycles", parameter), finding(truth, "cycles", parameter)).verdict is expected


@pytest.mark.parametrize("outcome", [Outcome.UNRESOLVED, Outcome.UNAVAILABLE])
def test_no_answer_is_unresolved_and_keeps_its_outcome(outcome: Outcome) -> None:
    judged = one(finding(None, outcome=outcome, reason="because"), finding(4))
    assert (judged.verdict, judged.outcome, judged.value, judged.truth) == (UNRESOLVED, outcome.value, None, 4)
    assert judged.covered is None and one(None, finding(4)).outcome == "not reported"


@pytest.mark.parametrize(("low", "high", "covered"), [(3.9, 4.2, True), (4.1, 4.2, False), (3.7, 3.95, False)])
def test_coverage_is_whether_the_interval_holds_the_truth(low: float, high: float, covered: bool) -> None:
    judged = one(finding((low + high) / 2, "cycles", low=low, high=high), finding(4.0, "cycles"))
    assert judged.covered is covered and judged.verdict is RIGHT


def test_what_the_truth_leaves_open_is_not_judged_and_what_the_machine_lacks_is_wrong() -> None:
    """A rate that the machine has, though its truth can't say how much; but not one of a level that it lacks."""
    of_l2, of_l3 = (f"bandwidth.{level}.load.64.threads_1" for level in ("l2", "l3"))
    reported = [finding(40.0, "GB/s", name) for name in (of_l2, of_l3)]
    judged = judge("m", reported, [], frozenset({of_l2, of_l3}), frozenset({of_l2}))
    assert [(each.parameter, each.verdict) for each in judged] == [(of_l3, WRONG)]


def test_only_parameters_of_the_scenario_are_judged() -> None:
    truths = [finding(4.0, "cycles", name) for name in ("latency.l1", "tlb.l1.miss_penalty.4k")]
    answer = Answer(machine="m", findings=[truths[0]], truths=truths, failures=[])
    assert [j.parameter for j in judge_all([answer], lambda name: name.startswith("latency.l"))] == ["latency.l1"]
    assert [j.parameter for j in judge_all([answer], lambda _: True)] == ["latency.l1", "tlb.l1.miss_penalty.4k"]
    assert [j.parameter for j in judge_all([answer], lambda name: not name.startswith("tlb."))] == ["latency.l1"]


def test_what_any_machine_has_is_known_of_all() -> None:
    """A third level reported on a machine with two is wrong, because another machine has one."""
    level = finding(40.0, "cycles", "latency.l3")
    has, lacks = (Answer(machine=name, findings=[level], truths=t) for name, t in (("three", [level]), ("two", [])))
    judged = [(each.machine, each.verdict) for each in judge_all([has, lacks], lambda _: True)]
    assert judged == [("three", RIGHT), ("two", WRONG)]
