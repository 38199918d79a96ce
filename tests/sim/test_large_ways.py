"""First caches whose ways are larger than a page, so that a line's set depends on its page, and what lies behind."""

from __future__ import annotations

from typing import Any

import pytest
from quiet_machines import quiet

from setebench.hierarchy.capacities import Capacities
from setebench.hierarchy.first_level import first_level
from setebench.measure.eviction import Sets
from setebench.measure.page_classes import PageClasses
from setebench.measure.thinning import Latencies
from setebench.scenario import Context

PAGE, LINE = 4096, 64
MEMORY = 64 << 20


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
