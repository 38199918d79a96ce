"""Simulated machines with as much memory as real ones have: only what is used takes room."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import HUGE, LINE, PAGE, quiet

from setebench.errors import ProbeFault
from setebench.hierarchy.second_tlb import second_table
from setebench.hierarchy.tlb import Pages, first_table
from setebench.probe import Base, Probe
from setebench.scenario import Context
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


def test_the_largest_second_tlb_for_large_pages_is_measured_in_usual_memory() -> None:
    tables = spec.Tlb(
        l1_2m=spec.TlbTable(entries=64, miss_penalty_cycles=11.0),
        l2_2m=spec.TlbTable(entries=2048, ways=8, miss_penalty_cycles=55.0),
    )
    machine = quiet(tlb=tables)
    region = machine.allocate(12 << 30, HUGE, populate=False)
    pages = Pages(Context(machine=machine), region, HUGE, 320)
    second = second_table(pages, first_table(pages))
    assert second.entries == 2048
    assert second.penalty == pytest.approx(55.0, abs=0.5)
