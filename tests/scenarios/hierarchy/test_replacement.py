"""Which line of a set gives way and what outer caches do with lines of the one before, by the model and on machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quiet_machines import quiet
from setebench.scenarios.hierarchy.replacement import (
    KnownCache,
    Losses,
    first_policy,
    inclusion_posterior,
    outer_caches,
    policy,
    sequences,
)

from setebench.calibration import Calibration, Levels
from setebench.experiments.chases import Pool
from setebench.experiments.conflicts import FILL_TURNS, MOST_LOADS, Lines, Numbers
from setebench.experiments.eviction_sets import Evictions
from setebench.scenario import Context
from setebench.sim import spec
from setebench.stats.cache_model import EXCLUSIVE, KEPT, OF_VICTIMS, POLICIES, PUBLISHED, missed

CYCLES = {"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0}
"""Of the quiet machine."""

COARSE = spec.Clock(ticks_per_cycle=0.703, step_ticks=26.0, jitter_cycles=2.0)


def misses(name: str, ways: int, *lines: int, moves: int = KEPT) -> list[int]:
    one = next(each for each in PUBLISHED if each.name == name)
    return np.flatnonzero(missed(one, ways, np.array([lines]), moves)[0]).tolist()


def test_the_line_used_longest_ago_leaves_and_a_tree_is_nearly_that() -> None:
    assert misses("lru", 4, 0, 1, 2, 3, 0, 4, 0, 1) == [0, 1, 2, 3, 5, 7]
    # the root points to the half that was not used last, where the older of two lines is
    assert misses("tree_plru", 4, 0, 1, 2, 3, 0, 4, 1, 2) == [0, 1, 2, 3, 5, 7]
    # of three trees of two the one used longest ago gives up a line
    assert misses("tree_plru", 6, 0, 1, 2, 3, 4, 5, 0, 6, 1, 2) == [0, 1, 2, 3, 4, 5, 7, 9]


def test_what_hits_leaves_an_exclusive_cache_and_comes_back_as_new() -> None:
    """By first in, first out: a line that hits is the newest in an exclusive cache, and stays what it was in others."""
    around = (0, 1, 2, 3, 0, 4, 0)
    fifo = next(each for each in PUBLISHED if each.name == "other")
    found = {moves: missed(fifo, 4, np.array([around]), moves)[0].tolist() for moves in (KEPT, EXCLUSIVE, OF_VICTIMS)}
    assert found[KEPT][-1] == found[OF_VICTIMS][-1] == 1.0
    assert found[EXCLUSIVE][-1] == 0.0


def noisy(predicted: Numbers, wrong: float, repetitions: int = 8) -> Numbers:
    """Loads that miss with these probabilities, some of which were observed the wrong way."""
    rng = np.random.default_rng(1)
    flipped = np.abs(predicted - (rng.random((repetitions, *predicted.shape)) < wrong))
    return np.asarray((rng.random(flipped.shape) < flipped).astype(np.float64))


def behind_fillers(ways: int) -> tuple[Lines, Lines]:
    lines = sequences(ways, MOST_LOADS, np.random.default_rng(2))
    fill = np.resize(np.arange(ways + 1) + lines.max() + 1, (len(lines), FILL_TURNS * (ways + 1)))
    return lines, np.concatenate([fill, lines], axis=1)


@pytest.mark.parametrize("ways", [8, 12])
@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 5, 7, 11, 100, 300])
def test_policies_are_found_among_observations_of_which_some_are_wrong(number: int, ways: int) -> None:
    lines, whole = behind_fillers(ways)
    late = noisy(missed(POLICIES[number], ways, whole)[:, -MOST_LOADS:], 0.05)
    names = policy(late, lines, ways, (KEPT,)).names
    best = max(names, key=lambda each: names[each])
    assert best == POLICIES[number].name or (best in names and names[best] < 0.95)


def test_a_policy_that_nobody_has_is_other() -> None:
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
    assert policy(noisy(late[:, -MOST_LOADS:], 0.02), lines, 8, (KEPT,)).names == {"other": 1.0}


def test_loads_that_differ_from_time_to_time_say_nothing() -> None:
    lines, _ = behind_fillers(8)
    late = np.repeat((np.random.default_rng(3).random((8, len(lines), 1)) < 0.5), MOST_LOADS, axis=2).astype(np.float64)
    assert not policy(late, lines, 8, (KEPT,)).names


def test_one_loss_in_a_pass_is_inclusion_and_none_is_not() -> None:
    assert inclusion_posterior(Losses(1.0, 0.05, 0.0))[True] > 0.95
    assert inclusion_posterior(Losses(0.0, 0.05, 0.0))[False] > 0.95
    assert inclusion_posterior(Losses(0.03, 0.01, 0.5))[False] > 0.95
    assert max(inclusion_posterior(Losses(0.3, 0.05, 1.2)).values()) < 0.95


def found(first: KnownCache, pages: int = 4096, **shape: Any) -> dict[str, Any]:
    """Findings of all caches behind the first of a quiet machine."""
    machine = quiet(**shape)
    cycles = {name: each for name, each in CYCLES.items() if shape.get(name, True) is not None}
    levels = Levels(walks={}, cycles=cycles)
    context = Context(machine=machine, calibration=Calibration(levels=levels))
    pool = Pool(context, pages)
    second = Evictions(context, pool).search(pool.rng.permutation(pool.pages), 2)
    values = {each.parameter: each.value for each in outer_caches(context, pool, first, second, levels)}
    pool.close()
    return {name.removeprefix("cache."): value for name, value in values.items()}


@pytest.mark.parametrize("name", ["tree_plru", "random", "lru", "fifo"])
@pytest.mark.parametrize("clock", [spec.Clock(), COARSE], ids=["fine", "coarse"])
def test_a_first_cache(name: str, clock: spec.Clock) -> None:
    """Also on a clock in steps of 37 cycles, where a load of 4 cycles and one of 14 are read alike."""
    context = Context(
        machine=quiet(l1={"replacement": name}, clock=clock),
        calibration=Calibration(levels=Levels(walks={}, cycles=CYCLES)),
    )
    names = first_policy(context, KnownCache(64, 8)).names
    assert max(names, key=lambda each: names[each]) == {"fifo": "other"}.get(name, name)


@pytest.mark.parametrize("inclusion", ["inclusive", "exclusive", "neither"])
def test_a_second_cache(inclusion: str) -> None:
    second = {"sets": 512, "ways": 8, "replacement": "lru", "inclusion": inclusion}
    values = found(KnownCache(64, 8, False), l2=second, l3=None)
    assert values["l1.inclusive_in_l2"] is (inclusion == "inclusive")
    assert values["l2.exclusive_of_l1"] is (inclusion == "exclusive")
    # what hits leaves an exclusive cache: what was used last and what came last are the same
    assert values["l2.replacement"] == ("lru" if inclusion != "exclusive" else None)


def test_a_third_cache_in_slices_behind_a_second() -> None:
    third = {"sets": 2048, "slices": 3, "ways": 8, "replacement": "srrip", "inclusion": "inclusive"}
    values = found(KnownCache(64, 4), 8192, l1={"ways": 4}, l2={"sets": 512, "ways": 4}, l3=third)
    assert (values["l3.ways"], values["l3.replacement"], values["l2.inclusive_in_l3"]) == (8, "srrip", True)


def test_nothing_is_said_of_a_cache_that_memory_does_not_fill() -> None:
    values = found(KnownCache(64, 8), 64, l2={"sets": 1024, "ways": 8})
    assert values["l2.replacement"] is None and values["l1.inclusive_in_l2"] is None
