"""Simulated machines with as much memory as real ones have: only what is used takes room."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import HUGE, LINE, PAGE, quiet

from setebench.errors import ProbeFault
from setebench.probe import Base, Probe
from setebench.sim import spec

RING = Base("ring")


def test_a_chase_through_far_pages_of_many_gigabytes() -> None:
    machine = quiet(memory=spec.Memory(bytes=32 << 30))
    region = machine.allocate(24 << 30, HUGE, populate=False)
    ring = region.address + np.random.default_rng(1).permutation(region.size // HUGE)[:500] * HUGE + 3 * LINE
    machine.link(region, ring)
    machine.run(Probe().chase(RING, 1200), {RING: ring[:1]})
    machine.release(region)
    assert machine.allocate(32 << 30, HUGE, populate=False).size == 32 << 30


def test_links_go_with_their_region() -> None:
    machine = quiet()
    region = machine.allocate(4 * PAGE, PAGE)
    machine.link(region, region.address + np.arange(4) * PAGE)
    machine.release(region)
    again = machine.allocate(4 * PAGE, PAGE)
    assert again.address == region.address
    with pytest.raises(ProbeFault):
        machine.run(Probe().chase(RING, 2), {RING: [again.address]})
