"""What a walk costs behind a second TLB for large pages, which memory has room to overfill by little."""

from __future__ import annotations

import pytest
from quiet_machines import HUGE, quiet

from setebench.hierarchy.second_tlb import second_table
from setebench.hierarchy.tlb import Pages, first_table
from setebench.scenario import Context
from setebench.sim import spec


def test_a_walk_s_penalty_where_half_as_many_pages_again_are_all_there_are() -> None:
    """512 entries of 768 pages: at every stride a half more than fits, which no number of pages a fifth more follows
    if the first is three fifths more."""
    tables = spec.Tlb(
        l1_2m=spec.TlbTable(entries=64, miss_penalty_cycles=25.0),
        l2_2m=spec.TlbTable(entries=512, ways=8, miss_penalty_cycles=72.0),
    )
    machine = quiet(tlb=tables, memory=spec.Memory(bytes=2 << 30))
    region = machine.allocate(768 * HUGE, HUGE, populate=False)
    pages = Pages(Context(machine=machine), region, HUGE, 320)
    second = second_table(pages, first_table(pages))
    assert second.entries == 512
    assert second.penalty == pytest.approx(72.0, abs=0.5)
