"""Loops as probes: the accesses that a policy changes nothing of, and prefetches of what later iterations use."""

from __future__ import annotations

import pytest

from setebench.errors import UsageError
from setebench.loops import Policy
from setebench.loops.traces import TracedLoops
from setebench.machine import open_machine

NONE = Policy()


def test_traces_run_on_a_machine_without_loops_of_its_own() -> None:
    loops = TracedLoops(open_machine("sim:plain"))
    ticks = loops.run_loop("list", (NONE, Policy(l1_distance=16)), 3)
    assert ticks.shape == (3, 2) and (ticks[:, 0] > 3 * ticks[:, 1]).all()
    with pytest.raises(UsageError, match="unknown loop"):
        loops.run_loop("none", (NONE,), 1)
    loops.close()
