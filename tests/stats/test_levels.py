"""Levels from made-up chains over working sets of growing size."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from setebench.stats.levels import Chains, Clock, Level, LevelsParams, levels, mixture

JITTER, PARAMS = 2.8, LevelsParams()
OCTAVES = np.arange(0, 12, 0.5)


def chains(seed: int, cycles: tuple[float, ...], weights: NDArray[np.float64], step: float) -> Chains:
    """128 chains of each of two lengths, of loads that levels of `cycles` serve by these weights."""
    rng = np.random.default_rng(seed)
    found = {}
    for length in (1, 3):
        durations = rng.choice(cycles, (128, length), p=weights).sum(axis=1) + JITTER * rng.standard_normal(128)
        found[length] = np.floor((durations + step * rng.random(128)) / step) * step
    return found


def along(ends: tuple[float, ...], octaves: float) -> NDArray[np.float64]:
    """Weights of levels that end (log2 of bytes) over so many octaves, shape (sizes, levels and memory)."""
    beyond = [np.clip((OCTAVES - end) / octaves + 0.5, 0, 1) for end in ends]
    steps = [np.ones(len(OCTAVES)), *np.minimum.accumulate(beyond), np.zeros(len(OCTAVES))]
    return -np.diff(steps, axis=0).T


def found(seed: int, cycles: tuple[float, ...], weights: NDArray[np.float64], step: float) -> list[Level]:
    """What is found where long chains show the levels that serve some size alone, and flushed lines, a tenth of which
    were prefetched."""
    memory = np.eye(len(cycles))[-1] * 0.9 + 0.1 / len(cycles)
    sources = [chains(1000 * seed + number, cycles, own, step) for number, own in enumerate([*weights, memory])]
    alone = [each for each, own in zip(cycles[:-1], weights.T, strict=False) if own.max() > 0.99]
    begin = [*alone, float(memory @ cycles)]
    return levels(mixture(sources, begin, Clock(step, JITTER**2), PARAMS), PARAMS)


HIERARCHIES = {
    "two": ((4.0, 14.0, 350.0), along((3.0, 7.0), 1.0)),
    "three": ((4.0, 14.0, 50.0, 400.0), along((3.0, 5.5, 9.0), 1.0)),
    "three, none but the first ever alone": ((5.0, 14.0, 50.0, 310.0), along((3.0, 4.5, 7.0), 3.0)),
    "four": ((4.0, 12.0, 40.0, 110.0, 260.0), along((2.0, 4.5, 7.0, 9.5), 1.0)),
    "the last one never outgrown": ((4.0, 14.0, 60.0, 300.0), along((3.0, 6.0, 40.0), 1.0)),
}


@pytest.mark.parametrize("step", [1.0, 24.0])
@pytest.mark.parametrize("name", HIERARCHIES)
def test_every_level_is_found_and_none_made_up(name: str, step: float) -> None:
    cycles, weights = HIERARCHIES[name]
    assert [each.cycles for each in found(1, cycles, weights, step)] == pytest.approx(cycles[:-1], rel=0.25, abs=1.0)


@pytest.mark.parametrize("step", [1.0, 24.0])
def test_a_slope_between_two_levels_is_no_third(step: float) -> None:
    assert len(found(2, (4.0, 14.0, 300.0), along((2.0, 6.0), 4.0), step)) == 2


def test_a_shared_level_that_others_make_slower_is_one_level() -> None:
    """90 cycles where nobody else is, 130 beside others, in parts that differ from size to size."""
    rng = np.random.default_rng(1)
    weights = along((3.0, 6.0, 9.5), 1.0)
    slow = rng.uniform(0.1, 0.9, len(weights))
    contended = np.column_stack([weights[:, :2], (1 - slow) * weights[:, 2], slow * weights[:, 2], weights[:, 3]])
    near, second, last = found(3, (5.0, 16.0, 90.0, 130.0, 320.0), contended, 2.0)
    assert (near.cycles, second.cycles) == (pytest.approx(5.0, abs=0.3), pytest.approx(16.0, abs=0.5))
    assert last.low <= 95.0 and 120.0 <= last.high <= 140.0


def test_loads_that_others_delay_are_of_their_level() -> None:
    """A fifth to three fifths of the second cache's loads take 26 cycles instead of 14, at any size."""
    weights = along((3.0, 6.5, 9.5), 1.0)
    late = np.random.default_rng(2).uniform(0.2, 0.6, len(weights))
    both = np.column_stack([weights[:, :1], (1 - late) * weights[:, 1], late * weights[:, 1], weights[:, 2:]])
    _, second, last = found(4, (4.0, 14.0, 26.0, 90.0, 320.0), both, 2.0)
    assert (second.low, second.high) == (pytest.approx(14.0, abs=1.0), pytest.approx(26.0, abs=1.5))
    assert last.low == pytest.approx(90.0, rel=0.1)


def test_two_kinds_of_memory_are_memory() -> None:
    """Rows that were open and others: what serves flushed lines as often is no cache."""
    weights = np.column_stack([along((3.0, 7.0), 1.0)[:, :2], along((3.0, 7.0), 1.0)[:, 2:] * (0.4, 0.6)])
    cycles, flushed = (4.0, 14.0, 200.0, 300.0), np.array([0.0, 0.0, 0.4, 0.6])
    sources = [chains(number, cycles, own, 1.0) for number, own in enumerate([*weights, flushed])]
    one = levels(mixture(sources, [4.0, 260.0], Clock(1.0, JITTER**2), PARAMS), PARAMS)
    assert [each.cycles for each in one] == pytest.approx([4.0, 14.0], rel=0.1)


def test_a_cache_into_which_flushed_lines_are_prefetched_is_no_memory() -> None:
    """Half of the lines of any chase beyond it came from the second cache, flushed ones too."""
    cycles, weights = (4.0, 24.0, 70.0, 230.0), along((3.0, 5.5, 9.0), 1.0)
    weights[:, 1] += weights[:, 2:].sum(axis=1) / 2
    weights[:, 2:] /= 2
    flushed = np.array([0.0, 0.5, 0.0, 0.5])
    sources = [chains(number, cycles, own, 1.0) for number, own in enumerate([*weights, flushed])]
    one = levels(mixture(sources, [4.0, 127.0], Clock(1.0, JITTER**2), PARAMS), PARAMS)
    assert [each.cycles for each in one] == pytest.approx(cycles[:-1], rel=0.1)
