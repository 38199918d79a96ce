"""Levels from made-up chains over working sets of growing size.

Over 3 draws of each hierarchy below (seeds 100 to 102) all levels were found and none was made up. Their latencies were
off by less than 0.1 cycles on a clock of single ticks and 0.6 on one of 34, but for a second level that is nowhere
alone: 3 there."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.stats.levels import Found, LevelsParams, Source, levels, mixture
from setebench.stats.served import Intervals

PER_TICK, OVERHEAD, JITTER, PARAMS = 1.4, 40.0, 2.0, LevelsParams()
OCTAVES = np.arange(0, 12, 0.5)


def source(seed: int, cycles: tuple[float, ...], weights: NDArray[np.float64], step: float) -> Source:
    """128 chains of each of four lengths, of loads that levels of `cycles` serve by these weights."""
    rng = np.random.default_rng(seed)
    count = np.repeat((8, 4, 2, 1), 128)
    served = [rng.choice(cycles, each, p=weights).sum() for each in count]
    durations = np.array(served) / PER_TICK + OVERHEAD + JITTER * rng.standard_normal(len(count))
    ticks = np.floor((durations + step * rng.random(len(count))) / step) * step
    chains = Intervals(count=count, ticks=ticks, step=step, jitter2=JITTER**2, cycles_per_tick=PER_TICK)
    return Source(intervals=chains, overhead=OVERHEAD)


def along(ends: tuple[float, ...], octaves: float) -> NDArray[np.float64]:
    """Weights of levels that end (log2 of bytes) over so many octaves, shape (sizes, levels and memory)."""
    beyond = [np.clip((OCTAVES - end) / octaves + 0.5, 0, 1) for end in ends]
    steps = [np.ones(len(OCTAVES)), *np.minimum.accumulate(beyond), np.zeros(len(OCTAVES))]
    return -np.diff(steps, axis=0).T


def found(seed: int, cycles: tuple[float, ...], weights: NDArray[np.float64], step: float) -> Found:
    sources = [source(1000 * seed + number, cycles, own, step) for number, own in enumerate(weights)]
    memory = np.eye(len(cycles))[-1] * 0.9 + 0.1 / len(cycles)
    return levels(mixture(sources, source(seed, cycles, memory, step), PARAMS), PARAMS)


HIERARCHIES = {
    "two": ((4.0, 14.0, 350.0), along((3.0, 7.0), 1.0)),
    "three": ((4.0, 14.0, 50.0, 400.0), along((3.0, 5.5, 9.0), 1.0)),
    "three, none but the first ever alone": ((5.0, 12.0, 50.0, 310.0), along((3.0, 4.5, 7.0), 3.0)),
    "four": ((4.0, 12.0, 40.0, 110.0, 260.0), along((2.0, 4.5, 7.0, 9.5), 1.0)),
}


@pytest.mark.parametrize("step", [1.0, 34.0])
@pytest.mark.parametrize("name", HIERARCHIES)
def test_every_level_is_found_and_none_made_up(name: str, step: float) -> None:
    cycles, weights = HIERARCHIES[name]
    one = found(1, cycles, weights, step)
    assert [each.cycles for each in one.caches] == pytest.approx(cycles[:-1], rel=0.25, abs=1.0)
    assert one.memory == pytest.approx(cycles[-1], rel=0.02)


@pytest.mark.parametrize("step", [1.0, 34.0])
def test_a_slope_between_two_levels_is_no_third(step: float) -> None:
    one = found(2, (4.0, 14.0, 300.0), along((2.0, 6.0), 4.0), step)
    assert len(one.caches) == 2


def test_a_cache_that_the_sweep_does_not_outgrow_is_a_cache() -> None:
    one = found(3, (4.0, 14.0, 60.0, 300.0), along((3.0, 6.0, 40.0), 1.0), 16.0)
    assert [each.cycles for each in one.caches] == pytest.approx([4.0, 14.0, 60.0], rel=0.1)


def test_two_kinds_of_memory_are_memory() -> None:
    """Rows that were open and others: what serves flushed lines as often is no cache."""
    weights = np.column_stack([along((3.0, 7.0), 1.0)[:, :2], along((3.0, 7.0), 1.0)[:, 2:] * (0.4, 0.6)])
    sources = [source(number, (4.0, 14.0, 200.0, 300.0), own, 1.0) for number, own in enumerate(weights)]
    flushed = source(77, (4.0, 14.0, 200.0, 300.0), np.array([0.0, 0.0, 0.4, 0.6]), 1.0)
    one = levels(mixture(sources, flushed, PARAMS), PARAMS)
    assert [each.cycles for each in one.caches] == pytest.approx([4.0, 14.0], rel=0.1)
    assert 200.0 < one.memory < 300.0


@pytest.mark.parametrize(("later", "cycles"), [(0.15, 14.0), (0.4, 18.0)])
def test_what_comes_and_goes_with_a_level_is_part_of_it(later: float, cycles: float) -> None:
    """Conflicts and prefetches under way make some of its loads slower, the same part everywhere, and a level takes
    what its others do; slices at several distances are as frequent as each other, and it takes their mean."""
    weights = along((3.0, 7.0), 1.0)
    weights = np.column_stack([weights[:, 0], (1 - later) * weights[:, 1], later * weights[:, 1], weights[:, 2]])
    one = found(4, (4.0, 14.0, 24.0, 300.0), weights, 1.0)
    assert [each.cycles for each in one.caches] == pytest.approx([4.0, cycles], rel=0.1)


def test_a_size_that_memory_served_while_something_else_ran_moves_no_level() -> None:
    """Larger ones that the second level serves show that it holds this one."""
    weights = along((3.0, 7.0), 1.0)
    weights[9] = (0.0, 0.2, 0.8)
    one = found(5, (4.0, 14.0, 300.0), weights, 1.0)
    assert [each.cycles for each in one.caches] == pytest.approx([4.0, 14.0], rel=0.1)
    assert set(one.caches[1].best(0.05)) == {7, 8, 9, 10, 11, 12, 13}


def test_a_cache_into_which_flushed_lines_are_prefetched_is_no_memory() -> None:
    """Half of the lines of any chase beyond it came from the second cache, flushed ones too."""
    cycles, weights = (4.0, 24.0, 70.0, 230.0), along((3.0, 5.5, 9.0), 1.0)
    weights[:, 1] += weights[:, 2:].sum(axis=1) / 2
    weights[:, 2:] /= 2
    sources = [source(number, cycles, own, 1.0) for number, own in enumerate(weights)]
    one = levels(mixture(sources, source(100, cycles, np.array([0.0, 0.5, 0.0, 0.5]), 1.0), PARAMS), PARAMS)
    assert [each.cycles for each in one.caches] == pytest.approx(cycles[:-1], rel=0.1)
    assert one.memory == pytest.approx(cycles[-1], rel=0.02)


def test_a_first_cache_that_the_smallest_sizes_outgrow_is_a_level() -> None:
    cycles, weights = (5.0, 12.0, 46.0, 210.0), along((0.0, 8.0, 10.0), 1.0)
    weights[:2] = (0.65, 0.35, 0.0, 0.0), (0.2, 0.8, 0.0, 0.0)
    one = found(4, cycles, weights, 14.0)
    assert [each.cycles for each in one.caches] == pytest.approx(cycles[:-1], rel=0.1, abs=1.0)


@pytest.mark.parametrize("prefetched", [0.7, 0.8, 0.9])
def test_the_first_cache_is_a_level_though_most_flushed_lines_are_prefetched_into_it(prefetched: float) -> None:
    cycles, weights = (4.0, 300.0), along((4.0,), 1.0)
    weights[:, 1] *= 1 - prefetched
    weights[:, 0] = 1 - weights[:, 1]
    sources = [source(number, cycles, own, 1.0) for number, own in enumerate(weights)]
    one = levels(mixture(sources, source(100, cycles, weights[-1], 1.0), PARAMS), PARAMS)
    assert [each.cycles for each in one.caches] == pytest.approx([4.0], rel=0.1)


def test_a_cache_that_serves_hardly_more_than_what_is_prefetched_into_it_is_a_level() -> None:
    """A fifth of all lines beyond the first cache come from the second, flushed ones too, and no size is its own."""
    cycles, weights = (2.0, 10.0, 38.0, 400.0), along((3.0, 9.0), 1.0)
    polluted = np.column_stack([weights[:, 0], 0.25 * weights[:, 1:].sum(axis=1), 0.75 * weights[:, 1:]])
    polluted[:, 1] += 0.05 * (OCTAVES == 3.5)
    polluted /= polluted.sum(axis=1, keepdims=True)
    sources = [source(number, cycles, own, 20.0) for number, own in enumerate(polluted)]
    one = levels(mixture(sources, source(50, cycles, np.array([0.0, 0.25, 0.0, 0.75]), 20.0), PARAMS), PARAMS)
    assert [each.cycles for each in one.caches] == pytest.approx(cycles[:-1], rel=0.15, abs=1.0)
    assert one.memory == pytest.approx(cycles[-1], rel=0.02)
