"""Which line of a set gives way and what the second cache does with lines of the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quiet_machines import quiet
from setebench.scenarios.hierarchy.first_cache import FirstShape
from setebench.scenarios.hierarchy.replacement import (
    Params,
    Replaced,
    measure_first,
    measure_second,
    policy,
    second_findings,
    sequences,
)

from setebench.calibration import Calibration, Levels
from setebench.experiments.chases import Pool
from setebench.experiments.conflicts import FILL_TURNS, MOST_LOADS, Lines, Numbers
from setebench.experiments.eviction_sets import Evictions
from setebench.scenario import Context
from setebench.sim import spec
from setebench.stats.cache_model import POLICIES, missed

COARSE = spec.Clock(ticks_per_cycle=0.703, step_ticks=26.0, jitter_cycles=2.0)
FIRST = FirstShape(ways=8, bytes=32 << 10)
"""Of the quiet machine."""


def misses(name: str, ways: int, *lines: int) -> list[int]:
    one = next(each for each in POLICIES if each.name == name)
    return np.flatnonzero(missed(one, ways, np.array([lines]))[0]).tolist()


def test_the_line_used_longest_ago_leaves_and_a_tree_is_nearly_that() -> None:
    assert misses("lru", 4, 0, 1, 2, 3, 0, 4, 0, 1) == [0, 1, 2, 3, 5, 7]
    # the root points to the half that was not used last, where the older of two lines is
    assert misses("tree_plru", 4, 0, 1, 2, 3, 0, 4, 1, 2) == [0, 1, 2, 3, 5, 7]
    # of three trees of two the one used longest ago gives up a line
    assert misses("tree_plru", 6, 0, 1, 2, 3, 4, 5, 0, 6, 1, 2) == [0, 1, 2, 3, 4, 5, 7, 9]


def noisy(predicted: Numbers, wrong: float, repetitions: int = 8) -> Numbers:
    """Loads that miss with these probabilities, some of which were observed the wrong way."""
    rng = np.random.default_rng(1)
    flipped = np.abs(predicted - (rng.random((repetitions, *predicted.shape)) < wrong))
    return np.asarray((rng.random(flipped.shape) < flipped).astype(np.float64))


def behind_fillers(ways: int) -> tuple[Lines, Lines]:
    lines = sequences(ways, MOST_LOADS, np.random.default_rng(2), Params(sequences=24))
    fill = np.resize(np.arange(ways + 1) + lines.max() + 1, (len(lines), FILL_TURNS * (ways + 1)))
    return lines, np.concatenate([fill, lines], axis=1)


def names_of(late: Numbers, lines: Lines, ways: int) -> list[str]:
    """What is probable by six rounds of four sequences each."""
    parts = zip(np.array_split(lines, 6), np.array_split(late, 6, axis=1), strict=True)
    return policy([Replaced(ways=ways, lines=each, late=part) for each, part in parts])


@pytest.mark.parametrize(("number", "ways"), [(0, 8), (2, 8), (3, 12), (4, 8), (7, 12), (11, 8)])
def test_policies_are_found_among_observations_of_which_some_are_wrong(number: int, ways: int) -> None:
    lines, whole = behind_fillers(ways)
    names = names_of(noisy(missed(POLICIES[number], ways, whole)[:, -MOST_LOADS:], 0.05), lines, ways)
    assert names[0] == POLICIES[number].name or len(names) > 1


def test_a_policy_that_nobody_has_is_none_of_them() -> None:
    """Every third line that misses takes the place of the one that was used last, the others of the one used first."""
    lines, whole = behind_fillers(8)
    late = np.zeros(whole.shape)
    for row, loads in enumerate(whole):
        held, misses = list[int](), 0
        for at, line in enumerate(loads.tolist()):
            late[row, at] = line not in held
            misses += line not in held
            if line not in held and len(held) == 8:
                held.pop(0 if misses % 3 else -1)
            held = [*(each for each in held if each != line), line]
    assert not names_of(noisy(late[:, -MOST_LOADS:], 0.02), lines, 8)


def context_of(**shape: Any) -> Context:
    cycles = {"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0}
    cycles = {name: each for name, each in cycles.items() if shape.get(name, True) is not None}
    return Context(machine=quiet(**shape), calibration=Calibration(levels=Levels(cycles=cycles), line_bytes=64))


@pytest.mark.parametrize(
    ("name", "clock"),
    [("tree_plru", COARSE), ("random", spec.Clock())],
)
def test_a_first_cache(name: str, clock: spec.Clock) -> None:
    """Also on a clock in steps of 37 cycles, where a load of 4 cycles and one of 14 are read alike."""
    context = context_of(l1={"replacement": name}, clock=clock)
    assert policy([measure_first(context, FIRST) for _ in range(6)])[0] == name


@pytest.mark.parametrize("inclusion", ["inclusive", "exclusive", "neither"])
def test_a_second_cache(inclusion: str) -> None:
    context = context_of(l2={"sets": 512, "ways": 8, "replacement": "lru", "inclusion": inclusion}, l3=None)
    pool = Pool(context, 4096)
    evictions, (victim, *rest), rounds = Evictions(context, pool), pool.rng.permutation(pool.pages), list[Any]()
    found = evictions.find(int(victim), np.array(rest))
    assert found is not None
    whole = evictions.whole(found, np.setdiff1d(rest, found.evictors))
    for _ in range(6):
        one = measure_second(context, pool.region, whole, FIRST)
        rounds += [one] if one else []
    values = {each.parameter.removeprefix("cache."): each.value for each in second_findings(context, rounds)}
    assert values["l1.inclusive_in_l2"] is (False if inclusion == "exclusive" else None)
    assert values["l2.exclusive_of_l1"] is (inclusion == "exclusive")
    # what hits leaves an exclusive cache: what was used last and what came last are the same
    assert values["l2.replacement"] == ("lru" if inclusion != "exclusive" else None)
    pool.close()
