"""Findings measured at two times: one is made of them, or none is reported."""

from __future__ import annotations

from typing import Any

from setebench.scenarios.hierarchy.twice import agreed

from setebench.results import Finding, Outcome


def number(value: float, half: float, parameter: str = "page_fault.minor.4k") -> Finding:
    return Finding(parameter=parameter, value=value, unit="cycles", low=value - half, high=value + half)


def count(value: Any) -> Finding:
    return Finding(parameter="tlb.l1.entries.4k", value=value, unit="entries")


def test_an_interval_spans_what_both_times_reported() -> None:
    reported = agreed(number(100.0, 2.0), number(110.0, 3.0))
    assert (reported.outcome, reported.value, reported.low, reported.high) == (Outcome.MEASURED, 105.0, 98.0, 113.0)


def test_two_states_of_a_machine_are_not_averaged() -> None:
    reported = agreed(number(97.0, 2.0), number(470.0, 9.0))
    assert (reported.outcome, reported.value, reported.low, reported.high) == (Outcome.UNRESOLVED, None, 95.0, 479.0)
    assert reported.reason is not None and "97" in reported.reason and "470" in reported.reason


def test_counts_must_be_equal() -> None:
    assert agreed(count(72), count(72)) == count(72)
    reported = agreed(count(72), count(67))
    assert (reported.outcome, reported.value, reported.low, reported.high) == (Outcome.UNRESOLVED, None, 67, 72)
    assert agreed(count(True), count(False)).outcome is Outcome.UNRESOLVED


def test_what_one_time_could_not_show_is_not_reported() -> None:
    lost = Finding(parameter="tlb.l1.entries.4k", unit="entries", outcome=Outcome.UNRESOLVED, reason="blurred")
    assert agreed(count(72), lost) == lost
    assert agreed(lost, count(72)) == lost
