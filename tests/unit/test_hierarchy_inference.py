"""What the hierarchy scenario infers from numbers alone: line size and lines of other cores."""

from __future__ import annotations

import pytest
from setebench.scenarios.hierarchy.cores.findings import Read, agreed, transfer_finding, walked_finding
from setebench.scenarios.hierarchy.cores.transfers import further_cpu
from setebench.scenarios.hierarchy.line_size import line_from_means

from setebench.results import Finding, Outcome
from setebench.stats.estimate import Interval

ENDS = (60.0, 450.0)
DISTANCES = [0, 8, 16, 32, 64, 128, 256, 512]


@pytest.mark.parametrize("line", [16, 32, 64, 128, 256])
def test_the_line_ends_where_loads_begin_to_hit(line: int) -> None:
    assert line_from_means(DISTANCES, [300.0 if each < line else 40.0 for each in DISTANCES]) == line


def test_a_line_is_not_reported_where_hits_and_misses_are_not_clear() -> None:
    assert line_from_means(DISTANCES, [300, 300, 300, 180, 40, 40, 40, 40]) is None
    assert line_from_means(DISTANCES, [300, 300, 40, 300, 40, 40, 40, 40]) is None
    assert line_from_means(DISTANCES, [40.0] * 8) is None


# -- other cores ------------------------------------------------------------------------------------------------------


def test_a_line_with_two_pasts_is_not_reported() -> None:
    steady = Interval(100.0, 99.5, 100.5)
    assert transfer_finding("x", Read(steady, 1.0, ENDS), 0.0).outcome is Outcome.MEASURED
    assert transfer_finding("x", Read(steady, 1.0, ENDS), -200.0).outcome is Outcome.UNRESOLVED
    assert transfer_finding("x", Read(steady, 0.4, ENDS), 0.0).outcome is Outcome.UNRESOLVED
    assert transfer_finding("x", Read(Interval(100.0, 60.0, 140.0), 1.0, ENDS), 0.0).outcome is Outcome.UNRESOLVED


def test_what_drift_leaves_open_is_in_the_interval() -> None:
    found = transfer_finding("x", Read(Interval(100.0, 99.5, 100.5), 1.0, ENDS, drift=4.0), 0.0)
    assert (found.low, found.high) == (96.0, 104.0)
    moved = transfer_finding("x", Read(Interval(100.0, 98.0, 102.0), 1.0, ENDS, drift=40.0), 0.0)
    assert moved.outcome is Outcome.UNRESOLVED and (moved.low, moved.high) == ENDS


def test_a_walk_that_lost_too_little_or_too_much_says_nothing_of_other_cores() -> None:
    cycles = {"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0}
    for answer in (15.0, 290.0):
        finding = walked_finding("x", Interval(answer, answer - 1, answer + 1), cycles)
        assert finding is not None
        assert finding.outcome is Outcome.UNRESOLVED
    assert walked_finding("x", Interval(46.0, 45.0, 47.0), cycles) is None
    assert walked_finding("x", Interval(290.0, 289.0, 291.0), {"l1": 4.0, "l2": 14.0, "memory": 300.0}) is None


def test_the_cpu_that_shares_a_line_is_never_nearer_than_its_owner() -> None:
    """The nearest holder delivers, so a nearer one would be measured in the owner's place."""
    cycles = {(0, 1): 100.0, (0, 2): 120.0, (0, 3): 140.0}
    assert [further_cpu(cycles, 0, owner) for owner in (1, 2, 3)] == [3, 3, None]
    assert further_cpu({(0, 1): 100.0}, 0, 1) is None


# -- measured at two times --------------------------------------------------------------------------------------------


def number(value: float, half: float) -> Finding:
    return Finding(parameter="x", value=value, unit="cycles", low=value - half, high=value + half)


def test_an_interval_spans_what_both_times_reported() -> None:
    reported = agreed(number(100.0, 2.0), number(110.0, 3.0))
    assert (reported.outcome, reported.value, reported.low, reported.high) == (Outcome.MEASURED, 105.0, 98.0, 113.0)


def test_two_states_of_a_machine_are_not_averaged() -> None:
    reported = agreed(number(97.0, 2.0), number(470.0, 9.0))
    assert (reported.outcome, reported.value, reported.low, reported.high) == (Outcome.UNRESOLVED, None, 95.0, 479.0)
    assert reported.reason is not None
    assert "97" in reported.reason
    assert "470" in reported.reason


def test_what_one_time_could_not_show_is_not_reported() -> None:
    lost = Finding(parameter="x", unit="cycles", outcome=Outcome.UNRESOLVED, reason="blurred")
    assert agreed(number(72.0, 1.0), lost) == lost
    assert agreed(lost, number(72.0, 1.0)) == lost
