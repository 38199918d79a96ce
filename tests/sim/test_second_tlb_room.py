"""Second TLBs that end near where the second cache has no room for more lines, on simulated machines."""

from __future__ import annotations

import pytest
from quiet_machines import quiet

from setebench.hierarchy.second_tlb import second_table
from setebench.hierarchy.tlb import Pages, first_table
from setebench.scenario import Context
from setebench.sim import spec


@pytest.mark.parametrize("held", [1300, 2000, 4096])
def test_a_bound_needs_no_room_for_twice_the_pages_that_miss(held: int) -> None:
    """A fully associative one, which no stride shows; where 2400 lines were too many, nothing of it was told."""
    tables = spec.Tlb(
        l1_4k=spec.TlbTable(entries=64, miss_penalty_cycles=7.0),
        l2_4k=spec.TlbTable(entries=1024, miss_penalty_cycles=40.0),
    )
    machine = quiet(l1={"ways": 12}, l2={"sets": 2048}, tlb=tables)
    pages = Pages(Context(machine=machine), machine.allocate(64 << 20, 4096), 4096, 200)
    found = second_table(pages, first_table(pages), held)
    assert found.entries is None
    assert found.at_least is not None
    assert 800 < found.at_least <= 1024
    assert (found.highest is None) == (held < 4096)
    assert not found.doubtful
