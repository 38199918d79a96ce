"""Which line of a set gives way in the caches behind the first, by the model alone and on quiet machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quiet_machines import quiet
from setebench.scenarios.hierarchy.replacement import KnownCache, OuterCaches, OuterFound

from setebench.calibration import Calibration, Levels
from setebench.experiments.chases import Pool
from setebench.machine import Machine
from setebench.scenario import Context
from setebench.sim import spec
from setebench.stats.cache_model import EXCLUSIVE, INCLUSIVE, KEPT, POLICIES, Cache, served

CYCLES = (4.0, 14.0, 46.0, 300.0)
"""Of the levels of the quiet machine and of memory."""

LRU, TREE = (next(number for number, each in enumerate(POLICIES) if each.name == name) for name in ("lru", "tree_plru"))


def test_caches_that_share_no_lines_hold_more_and_an_inclusive_one_takes_lines_along() -> None:
    """Round and round over one line more than an outer set of four has ways, before it two of an inner set."""
    around, first = np.tile(np.arange(5), 20), Cache(POLICIES[LRU], 2)
    beyond = {kind: served(first, Cache(POLICIES[LRU], 4, kind), around, (5, 50))[1] for kind in (KEPT, EXCLUSIVE)}
    assert beyond == {KEPT: 50, EXCLUSIVE: 0}
    # line 0 is used all the time, so that the inner cache keeps it and the outer one sees nothing of it
    use = np.array([[0, each] for each in np.tile(np.arange(1, 6), 20)]).ravel()
    near = {kind: served(first, Cache(POLICIES[LRU], 4, kind), use, (6, 100))[0] for kind in (KEPT, INCLUSIVE)}
    assert near[KEPT] == 50
    assert near[INCLUSIVE] < 45


def behind(machine: Machine, first: KnownCache, pages: int = 4096) -> OuterCaches:
    """Asks of the caches behind the first, in so many pages."""
    names = ("l1", "l2", "l3", "memory")
    levels = Levels(walks={}, cycles=dict(zip(names, CYCLES, strict=True)))
    context = Context(machine=machine, calibration=Calibration(levels=levels))
    return OuterCaches(context, Pool(context, pages), first)


def found(caches: int, first: KnownCache, **shape: Any) -> list[OuterFound]:
    """Of that many caches behind the first one of a quiet machine."""
    machine = quiet(**shape)
    outer = behind(machine, first)
    return [outer.next((CYCLES[number], CYCLES[number + 1], CYCLES[number + 2])) for number in range(caches)]


@pytest.mark.parametrize(
    ("replacement", "inclusion", "name"),
    [("tree_plru", "inclusive", "tree_plru"), ("random", "neither", "random"), ("fifo", "neither", "other")],
)
def test_a_second_cache(replacement: str, inclusion: str, name: str) -> None:
    second = {"sets": 1024, "ways": 8, "replacement": replacement, "inclusion": inclusion}
    (second_found,) = found(1, KnownCache(64, 8, TREE), l1={"replacement": "tree_plru"}, l2=second)
    values = {each.parameter: each.value for each in second_found.findings(2)}
    assert values == {"cache.l2.replacement": name, "cache.l2.exclusive_of_l1": False}
    assert second_found.ways == 8


def test_an_exclusive_cache_that_replaces_the_oldest_is_two_policies() -> None:
    """What is used leaves it, so that what was used last and what came last are the same."""
    shape = {"sets": 1024, "ways": 8, "inclusion": "exclusive"}
    (second,) = found(1, KnownCache(64, 8, LRU), l2=shape)
    assert second.exclusive[True] > 0.95
    assert second.names["lru"] == pytest.approx(second.names["other"], abs=0.1)


def test_lines_of_a_set_are_found_behind_a_hash() -> None:
    """Also where little is known of the cache before."""
    (second,) = found(1, KnownCache(64, 4), l1={"ways": 4}, l2={"sets": 256, "ways": 4, "hashed_index": True})
    assert second.ways == 4
    assert max(second.names, key=lambda each: second.names[each]) == "lru"


def test_a_clock_in_steps_as_long_as_a_miss() -> None:
    """26 ticks, 37 cycles, as on guests with small pages, where a load of 14 cycles and one of 46 are read alike."""
    clock = spec.Clock(ticks_per_cycle=0.703, step_ticks=26.0, jitter_cycles=2.0)
    second = {"sets": 512, "ways": 8}
    machine = quiet(clock=clock, l1={"replacement": "tree_plru"}, l2=second)
    outer = behind(machine, KnownCache(64, 8, TREE))
    answer = outer.next((CYCLES[0], CYCLES[1], CYCLES[2]))
    assert answer.ways == 8
    assert max(answer.names, key=lambda each: answer.names[each]) == "lru"


def test_lines_of_a_set_are_found_behind_slices() -> None:
    third = {"sets": 2048, "slices": 3, "ways": 8, "replacement": "srrip"}
    second, outer = found(2, KnownCache(64, 4), l1={"ways": 4}, l2={"sets": 512, "ways": 4}, l3=third)
    assert (second.ways, outer.ways) == (4, 8)
    assert outer.names["srrip"] > 0.95


def test_nothing_is_said_of_a_cache_that_memory_does_not_fill() -> None:
    machine = quiet(l2={"sets": 1024, "ways": 8})
    outer = behind(machine, KnownCache(64, 8, LRU), 64)
    assert not outer.next((CYCLES[0], CYCLES[1], CYCLES[2])).names
