"""First caches whose ways are larger than a page, so that a line's set depends on its page, and what lies behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quiet_machines import quiet

from setebench.hierarchy.capacities import Capacities
from setebench.hierarchy.first_level import first_level
from setebench.hierarchy.second_tlb import second_table
from setebench.hierarchy.tlb import LINES_SHARE, Pages, first_table
from setebench.measure.eviction import Sets
from setebench.measure.page_classes import PageClasses
from setebench.measure.thinning import Latencies
from setebench.scenario import Context
from setebench.sim import spec

PAGE, LINE = 4096, 64
MEMORY = 64 << 20


def pages_behind(sets: int, ways: int, entries: int = 2048) -> Pages:
    """Pages behind a first cache of so many sets of so many ways, translated by a second TLB of 8 ways."""
    tables = spec.Tlb(
        l1_4k=spec.TlbTable(entries=64, miss_penalty_cycles=7.0),
        l2_4k=spec.TlbTable(entries=entries, ways=8, miss_penalty_cycles=40.0),
    )
    machine = quiet(l1={"sets": sets, "ways": ways}, l2={"latency_cycles": 20}, tlb=tables)
    region = machine.allocate(MEMORY, PAGE)
    return Pages(Context(machine=machine), region, PAGE, int(LINES_SHARE * sets * ways), way_bytes=sets * LINE)


@pytest.mark.parametrize(("sets", "ways", "entries"), [(256, 8, 4096), (128, 8, 2048), (64, 8, 1024)])
def test_a_second_tlb_behind_a_cache_of_large_ways(sets: int, ways: int, entries: int) -> None:
    """At a stride of four pages a quarter of 256 sets is left: 512 lines, half as many as the pages that fit."""
    pages = pages_behind(sets, ways, entries)
    found = second_table(pages, first_table(pages))
    assert found.entries == entries
    assert found.penalty == pytest.approx(40.0, abs=0.3)


def test_too_few_lines_at_large_strides_tell_no_entries() -> None:
    """Of 1024 lines in ways of 32 KiB, as much as eight pages, every eighth page leaves 128."""
    pages = pages_behind(512, 2, 1024)
    found = second_table(pages, first_table(pages))
    assert found.entries in (None, 1024)
    assert found.penalty in (None, pytest.approx(40.0, abs=0.3))


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("sets", [64, 128, 256])
def test_no_set_of_the_first_cache_gets_more_lines_than_its_share(sets: int, stride: int) -> None:
    pages = pages_behind(sets, 8)
    count = pages.reach(stride)
    spread, packed = pages.rings(count, stride)
    for ring in (spread, packed):
        assert len(np.unique(ring)) == count
        assert np.bincount(ring // LINE % sets).max() <= 8
    assert len(np.unique(spread // PAGE)) == count
    assert (np.diff(np.unique(spread // PAGE)) == stride).all()


@pytest.mark.parametrize(("sets", "ways"), [(512, 4), (1024, 2), (256, 8)])
def test_ways_of_a_first_cache_whose_ways_are_larger_than_a_page(sets: int, ways: int) -> None:
    """Strides of 16 KiB told twice the ways of a cache whose ways have 32 KiB."""
    machine = quiet(l1={"sets": sets, "ways": ways}, l2={"sets": 2048, "ways": 16})
    found = first_level(Context(machine=machine), machine.allocate(MEMORY, PAGE))
    assert (found.ways, found.size) == (ways, sets * ways * LINE)


def test_no_ways_where_they_are_larger_than_all_strides() -> None:
    machine = quiet(l1={"sets": 4096, "ways": 2}, l2={"sets": 2048, "ways": 16})
    found = first_level(Context(machine=machine), machine.allocate(MEMORY, PAGE))
    assert (found.ways, found.size) == (None, None)


@pytest.mark.parametrize(
    ("sets", "ways", "second"),
    [
        (256, 8, {"sets": 1024, "ways": 12, "inclusion": "inclusive"}),
        (512, 4, {"sets": 2048, "ways": 8}),
        (256, 4, {"sets": 2048, "ways": 8, "hashed_index": True}),
    ],
)
def test_sets_of_the_second_cache_behind_large_ways(sets: int, ways: int, second: dict[str, Any]) -> None:
    """Lines at one offset of their pages lie in several sets of the first cache, and don't push each other out: its own
    conflicts were taken for the second one's, or none were found."""
    machine = quiet(l1={"sets": sets, "ways": ways}, l2=second)
    context = Context(machine=machine)
    region = machine.allocate(4 * MEMORY, PAGE)
    found = Sets(context, region, ways, Latencies(4.0, 14.0, 46.0), sets * LINE).find()
    assert found is not None
    assert found.ways == second["ways"]
    assert PageClasses(context, region, ways, Latencies(4.0, 14.0, 46.0), found).sure()


def test_a_second_cache_no_larger_than_the_first_tells_no_third() -> None:
    """Whatever was found was not the second cache, and a walk over so few lines no walk through it."""
    machine = quiet()
    found = Capacities(Context(machine=machine), machine.allocate(MEMORY, PAGE), 1024, [4.0, 14.0, 46.0, 300.0])
    assert found.third(1024.0) is None
