"""Sets of a second cache that rings didn't show: few lines behind a first one that may replace any, coarse clocks."""

from __future__ import annotations

from typing import Any

import pytest
from quiet_machines import OVERHEAD, quiet

from setebench.measure.eviction import Sets
from setebench.measure.page_classes import PageClasses
from setebench.measure.thinning import Latencies
from setebench.scenario import Context
from setebench.sim import spec

MEMORY = 64 << 20
CLOSE, FAR = Latencies(4.0, 14.0, 46.0), Latencies(4.0, 14.0, 300.0)
SEARCHES = 3


def ways_found(first_ways: int, latencies: Latencies, machine: Any, memory: int = MEMORY) -> list[int]:
    """Of each search that surely found a set."""
    context = Context(machine=machine)
    region = machine.allocate(memory, 4096)
    search = Sets(context, region, first_ways, latencies)
    found = [each for each in (search.find() for _ in range(SEARCHES)) if each is not None]
    return [each.ways for each in found if PageClasses(context, region, first_ways, latencies, each).sure()]


@pytest.mark.parametrize(
    ("first_ways", "second", "third", "latencies"),
    [
        (8, {"sets": 1024, "ways": 4, "replacement": "tree_plru", "inclusion": "inclusive"}, None, FAR),
        (8, {"sets": 512, "ways": 4}, {}, CLOSE),
        (12, {"sets": 512, "ways": 4}, {}, CLOSE),
        (8, {"sets": 512, "ways": 8, "replacement": "tree_plru", "inclusion": "exclusive"}, {}, CLOSE),
        (10, {"sets": 1024, "ways": 8, "replacement": "random"}, {}, CLOSE),
    ],
)
def test_sets_of_a_small_second_cache_behind_one_that_may_replace_any_line(
    first_ways: int, second: dict[str, Any], third: dict[str, Any] | None, latencies: Latencies
) -> None:
    """The first keeps some of few flushers, and the second can't hold many besides the lines of a set."""
    followers = (spec.NextLine(level=1, fills="l1"), spec.UpDown(level=2))
    machine = quiet(l1={"ways": first_ways, "replacement": "random"}, l2=second, l3=third, prefetchers=followers)
    found = ways_found(first_ways, latencies, machine)
    assert len(found) >= 2
    assert set(found) == {second["ways"]}


def test_a_hashed_index_on_a_coarse_clock() -> None:
    """A load has to be timed seventeen times to tell the level that it came from: no search was begun."""
    clock = spec.Clock(step_ticks=30.0, brackets={"lfence": OVERHEAD})
    second = {"sets": 512, "ways": 8, "hashed_index": True, "replacement": "tree_plru"}
    machine = quiet(clock=clock, l2=second, prefetchers=(spec.LinePair(level=2),))
    found = ways_found(8, CLOSE, machine)
    assert len(found) >= 2
    assert set(found) == {8}


def test_classes_of_pages_are_counted_where_all_chunks_hold_one() -> None:
    """Of pages enough to push each other out of twelve ways, one nearly always has a line of a set, of 512."""
    machine = quiet(3, l1={"ways": 12}, l2={"sets": 512, "ways": 8})
    context = Context(machine=machine, seed=3)
    region = machine.allocate(MEMORY, 4096)
    found = Sets(context, region, 12, CLOSE).find()
    assert found is not None
    classes = PageClasses(context, region, 12, CLOSE, found)
    assert classes.sure()
    counted = classes.count()
    assert counted is not None
    assert counted.value == pytest.approx(8.0, rel=0.3)
