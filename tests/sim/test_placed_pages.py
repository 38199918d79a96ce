"""Where pages lie beside each other: in a set of a TLB, in an entry, under an upper level of the page table, in an open
row of memory. Machines are quiet, so that what is counted and timed there is exact."""

from __future__ import annotations

from contextlib import closing

import pytest
from quiet_machines import MEMORY, OVERHEAD, PAGE, quiet
from setebench.scenarios.hierarchy.tlbs import SMALL_PAGE, Tlbs

from setebench.experiments.lines.placing import Place
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.sim import spec

REACH = 192 << 20
SAVED = 60.0


def counted(tlb: spec.Tlb, frame_run_pages: int) -> dict[str, Finding]:
    """What two looks say of small pages' TLBs."""
    memory = spec.Memory(frame_run_pages=frame_run_pages, page_sizes=(PAGE,))
    with closing(quiet(tlb=tlb, memory=memory)) as machine:
        found = Tlbs(Context(machine=machine), "4k", SMALL_PAGE)
        for _ in range(2):
            region = machine.allocate(REACH, PAGE)
            found.look(region)
            machine.release(region)
        return {finding.parameter: finding for finding in found.findings()}


@pytest.mark.parametrize(("entries", "ways", "index"), [(1024, 8, "linear"), (640, 5, "skewed"), (1024, 8, "hashed")])
def test_ways_that_neighbours_take_are_not_missing(entries: int, ways: int, index: str) -> None:
    """Eight pages could share an entry, but lie apart in memory: all eight are in one set."""
    second = spec.TlbTable(entries=entries, ways=ways, index=index, pages_per_entry=8, miss_penalty_cycles=40.0)
    found = counted(spec.Tlb(l2_4k=second), 1)["tlb.l2.entries.4k"]
    assert found.value is not None
    assert found.value == entries if found.outcome is Outcome.MEASURED else found.value <= entries
    assert found.value > 0.9 * entries


def test_targets_lie_in_all_sets_of_a_first_tlb_behind_whose_entries_pages_share_one() -> None:
    """One page of eight is used: always the same one would fill two of sixteen sets (63 entries instead of 96)."""
    first = spec.TlbTable(entries=96, ways=6)
    second = spec.TlbTable(entries=512, ways=8, pages_per_entry=8, miss_penalty_cycles=40.0)
    found = counted(spec.Tlb(l1_4k=first, l2_4k=second, walk_cache_entries=24), 16)
    assert (found["tlb.l1.entries.4k"].outcome, found["tlb.l1.entries.4k"].value) == (Outcome.MEASURED, 96)
    assert (found["tlb.walk_cache.entries"].outcome, found["tlb.walk_cache.entries"].value) == (Outcome.MEASURED, 24)


@pytest.mark.parametrize("first", [12, 64])
def test_upper_levels_are_counted_by_as_many_targets_as_the_first_tlb_allows(first: int) -> None:
    """Half as many as usual where it is small: they were taken for the usual number (20 entries instead of 16)."""
    second = spec.TlbTable(entries=512, ways=8, miss_penalty_cycles=40.0)
    tlb = spec.Tlb(l1_4k=spec.TlbTable(entries=first), l2_4k=second, walk_cache_entries=16)
    found = counted(tlb, 1)["tlb.walk_cache.entries"]
    assert (found.outcome, found.value) == (Outcome.MEASURED, 16)


@pytest.mark.parametrize("frame_run_pages", [1, 16, 64])
def test_lines_of_memory_are_seldom_in_a_row_that_is_open(frame_run_pages: int) -> None:
    """In neighbouring pages one in four was, where 16 frames lie in a row: 7 % less for all lines."""
    rows = {"banks": 64, "row_bytes": 8192, "row_hit_saves_cycles": SAVED}
    memory = spec.Memory(latency_cycles=MEMORY, frame_run_pages=frame_run_pages, page_sizes=(PAGE,), **rows)
    with closing(quiet(memory=memory)) as machine:
        place = Place(Context(machine=machine), machine.allocate(REACH, PAGE), "memory", 0.0)
        loads = place.time_singles(Context(machine=machine), 20).loads - OVERHEAD
    assert float(loads.mean()) == pytest.approx(MEMORY, abs=0.05 * SAVED)
