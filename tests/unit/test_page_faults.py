"""What a first touch costs, from rounds of which some were beside a co-runner."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from setebench.scenarios.hierarchy.faults import FaultRound, fault_finding

from setebench.results import Finding, Outcome


def found(costs: Iterable[float], later: float = 50.0) -> Finding:
    return fault_finding("4k", [FaultRound(cycles=float(each), later=later) for each in costs])


def holds(finding: Finding, value: float) -> bool:
    assert finding.low is not None and finding.high is not None
    return finding.low <= value <= finding.high


def test_nine_of_ten_intervals_or_more_hold_the_cost() -> None:
    """Twelve rounds, each off by 2 %, in three of which the system compacted memory for large pages: 100 runs."""
    rng = np.random.default_rng(2)
    costs = 6e5 * (1 + 0.02 * rng.standard_normal((100, 12)))
    costs[:, :3] *= rng.uniform(1.2, 30, (100, 3))
    intervals = [found(run) for run in costs]
    assert sum(holds(each, 6e5) for each in intervals) >= 90
    assert np.median([(each.high or 0.0) - (each.low or 0.0) for each in intervals]) < 0.1 * 6e5


def test_rounds_in_which_the_system_gave_other_pages_do_not_count() -> None:
    """Large pages may run out; a later touch then costs as much as the first, and the difference nothing or less."""
    given = [FaultRound(cycles=each, later=10.0) for each in (1000.0, 1010.0)]
    other = [FaultRound(cycles=each, later=1000.0) for each in (-5.0, 3.0)]
    both = fault_finding("4k", [*given, *other])
    assert 1000.0 <= (both.value or 0.0) <= 1010.0 and "2 rounds" in both.method
    lone = fault_finding("4k", [given[0], *other])
    assert lone.outcome is Outcome.UNRESOLVED and "other pages" in str(lone.reason)
