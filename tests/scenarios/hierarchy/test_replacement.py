"""Which line of a set gives way in a second cache, by the model alone and on quiet machines."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import quiet
from setebench.scenarios.hierarchy.replacement import KnownCache, outer_replacement

from setebench.scenario import Context
from setebench.stats.cache_model import EXCLUSIVE, INCLUSIVE, KEPT, POLICIES, Cache, served

CYCLES = (4.0, 14.0, 46.0)
"""Of the first two levels of the quiet machine and of what is behind them, about."""

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


@pytest.mark.parametrize(
    ("replacement", "inclusion", "name"),
    [("tree_plru", "inclusive", "tree_plru"), ("random", "neither", "random"), ("fifo", "neither", "other")],
)
def test_a_second_cache(replacement: str, inclusion: str, name: str) -> None:
    second = {"sets": 1024, "ways": 8, "replacement": replacement, "inclusion": inclusion}
    context = Context(machine=quiet(l1={"replacement": "tree_plru"}, l2=second))
    found = outer_replacement(context, KnownCache(64, 8, TREE), KnownCache(1024, 8), CYCLES)
    values = {each.parameter: each.value for each in found.findings(2)}
    assert values == {"cache.l2.replacement": name, "cache.l2.exclusive_of_l1": False}


def test_an_exclusive_cache_that_replaces_the_oldest_is_two_policies() -> None:
    """What is used leaves it, so that what was used last and what came last are the same."""
    context = Context(machine=quiet(l2={"sets": 1024, "ways": 8, "inclusion": "exclusive"}))
    found = outer_replacement(context, KnownCache(64, 8, LRU), KnownCache(1024, 8), CYCLES)
    assert found.exclusive[True] > 0.95
    assert found.names["lru"] == pytest.approx(found.names["other"], abs=0.1)


def test_lines_that_share_no_set_fit_no_policy() -> None:
    context = Context(machine=quiet(l2={"sets": 1024, "ways": 8, "hashed_index": True}))
    found = outer_replacement(context, KnownCache(64, 8, LRU), KnownCache(1024, 8), CYCLES)
    assert not found.names
    assert found.reason
