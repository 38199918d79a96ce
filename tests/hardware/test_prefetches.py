"""Software prefetches on this CPU: that they do something, whatever it is on this machine."""

from __future__ import annotations

import numpy as np
import pytest
from native_fixture import LINE, means
from setebench.scenarios.software_prefetch.params import Layout
from setebench.scenarios.software_prefetch.places import first_touches

from setebench.machine import Region
from setebench.native.machine import NativeMachine
from setebench.probe import Base, Probe
from setebench.scenario import Context

BESIDE = Base("beside")


def _pages(region: Region, count: int) -> dict[Base, np.ndarray]:
    begin = region.address + 4096 * np.random.default_rng(4).integers(0, region.size // 4096, count)
    return {LINE: begin + 64 * 7, BESIDE: begin + 64 * 50}


@pytest.mark.parametrize("hint", ["t0", "nta"])
def test_a_prefetched_line_loads_faster(native: NativeMachine, region: Region, hint: str) -> None:
    flushed = Probe().flush(LINE).fence().wait(2000).load(BESIDE).fence()
    probes = {
        "prefetched": flushed.prefetch(LINE, hint).wait(3000).fence().start().load(LINE).stop(),
        "not": flushed.wait(3000).fence().start().load(LINE).stop(),
    }
    ticks = means(native, probes, _pages(region, 1500))
    assert ticks["prefetched"] < 0.8 * ticks["not"]


def test_a_prefetch_of_a_fresh_page_neither_faults_nor_takes_a_fault(native: NativeMachine) -> None:
    ticks = first_touches(Context(machine=native, seed=1), "t0", 8, Layout())
    assert np.median(ticks.before[0]) < 0.5 * np.median(ticks.touch[1])
