"""Means of counts over runs of a program, with 95 % intervals by Student's t over the runs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from setebench.counters.counted import Counted
from setebench.counters.protocol import Count


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of `runs` runs with its 95 % interval, in the unit of the counts; None with a reason where a run has no
    count, where a counter had its register for only a part of the time, or (the interval) where there is one run."""

    runs: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


def means(counted: Counted) -> dict[str, Mean]:
    """The mean of every name asked for, over all runs that were not ended by the user."""
    whole = [run for run in counted.runs if not run.asked]
    return {event.name: mean([run.counts[event.name] for run in whole]) for event in counted.events}


def mean(counts: Sequence[Count]) -> Mean:
    """The mean of these counts, one of each run."""
    missing = next((count.reason for count in counts if count.value is None), "")
    if missing or not counts:
        return Mean(runs=len(counts), reason=missing or "no run was whole")
    if any(count.shared for count in counts):
        return Mean(runs=len(counts), reason="its counter ran for a part of the time only (multiplexing)")
    values = [count.value or 0 for count in counts]
    if len(values) == 1:
        return Mean(runs=1, mean=float(values[0]), reason="one run has no interval")
    from setebench.stats.estimate import over_epochs  # numpy and scipy are only loaded where there are several runs

    found = over_epochs(values)
    return Mean(runs=len(values), mean=found.value, low=found.low, high=found.high)
