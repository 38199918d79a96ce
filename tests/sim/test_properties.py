"""What must hold for any simulated machine and any probe."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quiet_machines import HUGE, LINE, OVERHEAD, PAGE, PAGE_BASE

from setebench.probe import Probe
from setebench.sim import spec
from setebench.sim.machine import open_machine_file
from setebench.sim.random.machine import random_machine

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LONGEST = 5000
"""Cycles that no operation takes: a page walk and memory's latency are a tenth of that."""

operations = st.lists(
    st.tuples(st.sampled_from(["load", "store", "prefetch", "flush", "fence", "wait", "add"]), st.integers(0, 127)),
    min_size=1,
    max_size=30,
)


def probe_of(parts: list[tuple[str, int]]) -> Probe:
    probe = Probe().fence().start(dither=False)
    for what, line in parts:
        if what == "fence":
            probe = probe.fence("mls"[line % 3])
        elif what in ("wait", "add"):
            probe = getattr(probe, what)(line + 1)
        else:
            probe = getattr(probe, what)(PAGE_BASE + line * LINE)
    return probe.stop()


def ticks_of(machine: spec.Machine, parts: list[tuple[str, int]]) -> np.ndarray:
    opened = open_machine_file(machine, 7)
    region = opened.allocate(2 * HUGE, PAGE)
    ticks = opened.run(probe_of(parts), {PAGE_BASE: region.address + (np.arange(4) * 7 % 64) * 2 * PAGE})[:, 0]
    opened.close()
    return ticks


@QUICK
@given(seed=st.integers(0, 10**9), parts=operations)
def test_time_is_never_lost_and_the_same_seed_gives_the_same_ticks(seed: int, parts: list[tuple[str, int]]) -> None:
    clock = spec.Clock(brackets={"lfence": OVERHEAD})
    machine = msgspec.structs.replace(random_machine(seed), clock=clock, noise=spec.Noise())
    ticks = ticks_of(machine, parts)
    assert np.array_equal(ticks, ticks_of(machine, parts))
    least = max((line + 1 for what, line in parts if what in ("wait", "add")), default=0)
    assert ticks.min() >= OVERHEAD + least
    assert ticks.max() < OVERHEAD + sum(LONGEST + line for _, line in parts)
