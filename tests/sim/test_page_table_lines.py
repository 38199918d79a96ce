"""Page tables lie in caches too: what a walk costs must not grow with the pages used before it, whose entries of the
page table push those of the pages in question out."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
from altered import Altered
from numpy.typing import NDArray
from quiet_machines import PAGE, quiet

from setebench.experiments.translations import PageUnits, Survival, SurvivalParams
from setebench.machine import Region
from setebench.probe import Kind, Probe
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.machine import SimulatedMachine

WALK, FAR = 40, 200
KEPT_LINES, LINE_REACH = 64, 8 * PAGE
"""Lines of page tables that caches keep, and the memory whose eight entries lie in one of them."""


class CachedPageTables(Altered):
    """A walk takes longer by FAR where no page with an entry in the same line was among the last that were used."""

    def __init__(self, machine: SimulatedMachine) -> None:
        super().__init__(machine)
        self._linked = np.zeros(0, dtype=np.int64)

    def link(self, region: Region, addresses: NDArray[np.int64]) -> None:
        self._linked = addresses
        self._machine.link(region, addresses)

    def run(self, probe: Probe, placements: Any, **how: Any) -> NDArray[np.int64]:
        ticks = self._machine.run(probe, placements, **how)
        used = [each.operand for each in probe.operations if each.kind == Kind.FLUSH and each.operand is not None]
        if used and Kind.CHASE in probe.rows[:, 0]:
            last = np.stack([np.asarray(placements[each.base]) + each.offset for each in used[-KEPT_LINES:]], axis=1)
            wanted = self._linked // LINE_REACH
            far = [FAR * int((~np.isin(wanted, row)).sum()) for row in last[-len(ticks) :] // LINE_REACH]
            ticks[:, 1] += np.array(far)
        return ticks


@pytest.mark.parametrize("others", [400, 3000])
def test_a_walk_costs_the_same_however_many_pages_were_used_before(others: int) -> None:
    first, second = (spec.TlbTable(entries=entries, miss_penalty_cycles=WALK) for entries in (64, 128))
    with closing(quiet(tlb=spec.Tlb(l1_4k=first, l2_4k=second))) as machine:
        context = Context(machine=CachedPageTables(machine), fast=True)
        region = machine.allocate(64 << 20, PAGE)
        survival = Survival(context, PageUnits(region=region, page_bytes=PAGE), SurvivalParams())
        assert survival.stream(others, 2) == pytest.approx(np.full(2, WALK), abs=1.0)
