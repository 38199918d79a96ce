"""A value of a prefetcher is reported only if surveys at several times agree on it."""

from __future__ import annotations

import pytest
from setebench.scenarios.prefetcher_map.report import agreed, open_questions

from setebench.results import Finding, Outcome, Value

NAME = "prefetcher.l1.stride.trigger"


def reported(value: Value, low: float | None = None, high: float | None = None) -> Finding:
    return Finding(parameter=NAME, value=value, unit="accesses", low=low, high=high)


def at_least(value: int) -> Finding:
    return Finding(parameter=NAME, value=value, unit="accesses", outcome=Outcome.AT_LEAST, reason="no limit")


OPEN = Finding(parameter=NAME, unit="accesses", outcome=Outcome.UNRESOLVED, reason="unclear")
ABSENT = Finding(parameter=NAME, value=False, outcome=Outcome.ABSENT)


def one(*findings: Finding) -> Finding:
    (finding,) = agreed([[each] for each in findings])
    return finding


def test_a_value_reported_twice_is_reported() -> None:
    assert one(reported(4), OPEN, reported(4)).value == 4
    assert one(ABSENT, ABSENT).outcome is Outcome.ABSENT
    assert one(reported([1, 2]), reported([1, 2])).value == [1, 2]


@pytest.mark.parametrize(
    "findings", [(reported(4),), (reported(4), OPEN), (OPEN, OPEN), (reported(4), reported(8), reported(4))]
)
def test_a_value_reported_once_or_contradicted_is_not(findings: tuple[Finding, ...]) -> None:
    finding = one(*findings)
    assert finding.outcome is Outcome.UNRESOLVED
    assert finding.reason


def test_presence_and_absence_contradict_each_other() -> None:
    assert one(reported(True), ABSENT, ABSENT).outcome is Outcome.UNRESOLVED


def test_intervals_of_all_surveys_are_covered() -> None:
    finding = one(reported(4, 3, 5), reported(4, 4, 7))
    assert (finding.low, finding.high) == (3, 7)


def test_limits_agree_on_the_lowest_and_never_contradict_a_value_above_them() -> None:
    assert one(at_least(12), at_least(8)).value == 8
    mixed = one(at_least(8), reported(12))
    assert (mixed.value, mixed.outcome) == (8, Outcome.AT_LEAST)
    assert one(at_least(8), reported(12), reported(12)).value == 12
    assert one(at_least(16), reported(12), reported(12)).outcome is Outcome.UNRESOLVED


def test_more_surveys_are_asked_for_only_where_they_may_settle_something() -> None:
    assert open_questions([[reported(4)]])
    assert open_questions([[reported(4)], [OPEN]])
    assert not open_questions([[reported(4)], [reported(4)]])
    assert open_questions([[reported(4)], [reported(4)], [reported(8)]])
    assert not open_questions([[reported(4)], [reported(4)], [reported(8)], [reported(8)]])
    assert not open_questions([[OPEN], [OPEN]])


def test_parameters_keep_the_order_in_which_they_were_mentioned() -> None:
    other = Finding(parameter="prefetcher.l2.pair.present", value=True)
    assert [finding.parameter for finding in agreed([[OPEN], [other, OPEN]])] == [NAME, other.parameter]


def test_one_accident_is_outvoted_by_many() -> None:
    assert one(reported(4), reported(4), reported(8), reported(4)).value == 4
    assert (
        one(reported(4), reported(4), reported(8), reported(8), reported(4), reported(4)).outcome is Outcome.UNRESOLVED
    )


def test_rules_of_a_prefetcher_that_is_not_surely_there_are_not_reported() -> None:
    there = Finding(parameter="prefetcher.l1.stride.present", value=True)
    unsure = Finding(parameter="prefetcher.l1.stride.present", outcome=Outcome.UNRESOLVED, reason="unclear")
    assert [f.parameter for f in agreed([[there, reported(4)], [there, reported(4)]])] == [there.parameter, NAME]
    assert [f.parameter for f in agreed([[there, reported(4)], [unsure], [there, reported(4)], [unsure]])] == [
        there.parameter,
        NAME,
    ]
    assert [f.parameter for f in agreed([[there, reported(4)], [unsure]])] == [there.parameter]
