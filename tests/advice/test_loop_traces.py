"""Loops as probes: the accesses that a policy changes nothing of, and prefetches of what later iterations use."""

from __future__ import annotations

import numpy as np
import pytest

from setebench.errors import UsageError
from setebench.loops import Policy
from setebench.loops.shapes import shape
from setebench.loops.traces import Span, TracedLoops, trace
from setebench.machine import open_machine
from setebench.probe import Kind, Probe

SPAN = Span(lead=40, timed=24)
NONE = Policy()
ACCESSES = (Kind.LOAD, Kind.STORE)


def _trace(name: str, policy: Policy) -> Probe:
    return trace(shape(name), policy, SPAN, 5)


def _by_iteration(probe: Probe, kinds: tuple[Kind, ...]) -> list[set[tuple[int, int]]]:
    """(stream, line) of each iteration's operations of these kinds."""
    iterations = SPAN.lead + SPAN.timed
    rows = probe.rows[~np.isin(probe.rows[:, 0], (Kind.START, Kind.STOP))].reshape(iterations, -1, probe.rows.shape[1])
    return [{(int(row[1]), int(row[2]) // 64) for row in part if row[0] in kinds} for part in rows]


@pytest.mark.parametrize("name", ["triad", "strided", "spmv", "list", "hash_join"])
@pytest.mark.parametrize("policy", [Policy(l1_distance=3), Policy(l1_distance=2, l2_distance=9)])
def test_prefetches_are_of_what_later_iterations_access(name: str, policy: Policy) -> None:
    """The lines of prefetches, but for those of the last iterations, are lines that are accessed, `distance` later; and
    loads that no prefetch needs are the same ones as without prefetches."""
    probe = _trace(name, policy)
    plain = _by_iteration(_trace(name, NONE), ACCESSES)
    accessed, prefetched = _by_iteration(probe, ACCESSES), _by_iteration(probe, (Kind.PREFETCH,))
    stages = [distance for distance in (policy.l2_distance, policy.l1_distance) if distance]
    for i in range(SPAN.lead + SPAN.timed - max(stages)):
        assert prefetched[i] and prefetched[i] <= set().union(*(plain[i + distance] for distance in stages))
        assert plain[i] <= accessed[i]


def test_traces_run_on_a_machine_without_loops_of_its_own() -> None:
    loops = TracedLoops(open_machine("sim:plain"))
    ticks = loops.run_loop("list", (NONE, Policy(l1_distance=16)), 3)
    assert ticks.shape == (3, 2) and (ticks[:, 0] > 3 * ticks[:, 1]).all()
    with pytest.raises(UsageError, match="unknown loop"):
        loops.run_loop("none", (NONE,), 1)
    loops.close()
