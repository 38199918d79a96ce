"""Sets of the second cache: small ones that take only what a large first one gives up, and whether sets go by age."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quiet_machines import quiet

from setebench.hierarchy.inclusion import all_held, inclusive
from setebench.measure.eviction import Congruent, Sets
from setebench.measure.page_classes import PageClasses
from setebench.measure.thinning import Latencies
from setebench.scenario import Context

MEMORY = 64 << 20
CLOSE = Latencies(4.0, 14.0, 46.0)
SEARCHES = 4


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"ways": 12}, {"sets": 512, "ways": 8, "inclusion": "exclusive"}),
        ({"ways": 8, "replacement": "tree_plru"}, {"sets": 512, "ways": 4, "inclusion": "exclusive"}),
        ({"ways": 8}, {"sets": 512, "ways": 4, "inclusion": "exclusive", "replacement": "random"}),
        (
            {"ways": 4, "replacement": "random"},
            {"sets": 1024, "ways": 8, "inclusion": "exclusive", "replacement": "tree_plru"},
        ),
    ],
)
def test_no_search_tells_other_ways(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Lines of the set among the latest of a ring are in the first cache and take no way, so that whatever moves them
    nearer to each other ends the conflict: 8 ways were told as 20. A tree of bits keeps one for good, and 4 as 3; or a
    line of the ring before, which then seems to be one too many."""
    machine = quiet(l1=first, l2=second)
    context = Context(machine=machine)
    region = machine.allocate(MEMORY, 4096)
    search = Sets(context, region, first["ways"], CLOSE)
    found = [each for each in (search.find() for _ in range(SEARCHES)) if each is not None]
    sure = [each.ways for each in found if PageClasses(context, region, first["ways"], CLOSE, each).sure()]
    assert len(sure) >= 2
    assert set(sure) == {second["ways"]}


def test_sets_behind_a_first_cache_that_may_replace_any_line() -> None:
    """It keeps more of few lines than of many, which looked like an overfull set, and of more than few each of a small
    second cache's sets overflows. But no set overflows for less than a miss per round."""
    first, second = {"replacement": "random"}, {"sets": 512, "ways": 4, "inclusion": "exclusive"}
    machine = quiet(l1=first, l2={**second, "replacement": "random", "latency_cycles": 11}, l3=None)
    context, far = Context(machine=machine), Latencies(4.0, 11.0, 300.0)
    region = machine.allocate(MEMORY, 4096)
    search = Sets(context, region, 8, far)
    found = [each for each in (search.find() for _ in range(SEARCHES)) if each is not None]
    sure = [each.ways for each in found if PageClasses(context, region, 8, far, each).sure()]
    assert len(sure) >= 2
    assert set(sure) == {4}


def test_a_set_one_of_whose_lines_was_taken_for_a_foreign_one_is_not_sure() -> None:
    """It takes a way all the time, so that the others seem to overfill a set of one way less."""
    machine = quiet(l2={"sets": 1024, "ways": 8})
    context = Context(machine=machine)
    region = machine.allocate(MEMORY, 4096)
    found = Sets(context, region, 8, CLOSE).find()
    assert found is not None
    assert PageClasses(context, region, 8, CLOSE, found).sure()
    hidden = Congruent(found.lines[1:], np.append(found.flushers, found.lines[0]))
    assert not PageClasses(context, region, 8, CLOSE, hidden).sure()


@pytest.mark.parametrize(("replacement", "by_age"), [("lru", True), ("random", False)])
def test_only_an_order_of_use_loses_all_lines_to_one_more(replacement: str, by_age: bool) -> None:
    """A second cache of known sets was walked over six times for every trial with the third one's, as if it might
    replace any line, until the loads for these ran out."""
    machine = quiet(l2={"sets": 1024, "ways": 8, "replacement": replacement})
    context = Context(machine=machine)
    region = machine.allocate(MEMORY, 4096)
    found = Sets(context, region, 8, CLOSE).find()
    assert found is not None
    classes = PageClasses(context, region, 8, CLOSE, found)
    assert classes.sure()
    assert classes.by_age() is by_age


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"ways": 4, "replacement": "random"}, {"ways": 8, "inclusion": "exclusive", "replacement": "tree_plru"}),
        ({"ways": 8}, {"ways": 8, "inclusion": "exclusive", "replacement": "random"}),
        ({"ways": 12}, {"ways": 4, "inclusion": "inclusive", "replacement": "random"}),
        ({"ways": 8, "replacement": "tree_plru"}, {"ways": 16, "inclusion": "inclusive"}),
    ],
)
def test_one_line_more_than_ways_is_only_held_by_caches_that_hold_different_ones(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    """Whatever they replace: no line in use tells that of a first cache that may give up any line."""
    machine = quiet(l1=first, l2={"sets": 1024, **second})
    context = Context(machine=machine)
    region = machine.allocate(MEMORY, 4096)
    found = Sets(context, region, first["ways"], CLOSE).find()
    assert found is not None
    exclusive, miss = second["inclusion"] == "exclusive", CLOSE.beyond - CLOSE.own
    assert all_held(context, region, found, miss) is exclusive
    assert inclusive(context, region, found, miss)[0] is not exclusive
