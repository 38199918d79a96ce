"""What pushes lines out of the second cache brings in nothing else, and loads are compared with a sure reference."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import L1, L3, MEMORY, OVERHEAD, quiet

from setebench.hierarchy.third_sets import _trials
from setebench.machine import Region
from setebench.measure.absent import Absent
from setebench.measure.crowded import Crowd
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.thinning import Latencies
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine

REGION_BYTES = 48 << 20
PAGES, BALLAST = 64, 200


def _absent(machine: SimulatedMachine) -> tuple[Context, Region, Absent]:
    context, region = Context(machine=machine), machine.allocate(REGION_BYTES, TLB_PAGE_BYTES)
    return context, region, Absent(context, region, Latencies(L1, L3, MEMORY))


def test_a_prefetcher_of_strides_is_led_past_no_page() -> None:
    """It brought the first lines of the pages that follow, which took ways of sets that were asked for."""
    stride = spec.Stride(level=1, trigger=3, max_distance=6, crosses_4k=True, crosses_4k_in_2m=True)
    machine = quiet(l2={"sets": 256, "ways": 4}, l3={"sets": 8192, "ways": 8}, prefetchers=(stride,))
    context, region, absent = _absent(machine)
    every_other = region.address + np.arange(0, 2 * BALLAST, 2) * TLB_PAGE_BYTES
    tried = region.address + np.arange(1, 2 * PAGES, 2) * TLB_PAGE_BYTES
    found = Crowd(tried, every_other, np.ones((PAGES, 64), dtype=np.bool_))
    trials = _trials(context, region, absent, found, 1024.0, True)
    elsewhere = every_other[:1] + 1024 * TLB_PAGE_BYTES
    cycles = trials.cycles(elsewhere, (tried[:, None] + np.arange(12) * 64).ravel())
    assert absent.gone(cycles).mean() > 0.98


@pytest.mark.parametrize("seed", range(4))
def test_what_loads_are_compared_with_is_sure_on_a_clock_of_long_steps(seed: int) -> None:
    """Sixty-four loads left it up to eight cycles off: a third cache may lie six behind what is near."""
    clock = spec.Clock(step_ticks=54.0, brackets={"lfence": OVERHEAD, "mfence": OVERHEAD, "cpuid": OVERHEAD})
    _, region, absent = _absent(quiet(seed, clock=clock))
    lines = region.address + np.arange(4000) % 32 * (TLB_PAGE_BYTES + 64)
    cycles = absent.cycles(lines)[1000:]
    assert float(cycles.mean()) == pytest.approx(L1, abs=2.5)
