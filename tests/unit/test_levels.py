"""Plateaus and their ends in synthetic sweeps whose hierarchy is known."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from setebench.infer.levels import Answer, boundary, levels_between, plateaus, rising

KIB, MIB = 1024.0, 1024.0**2
HIERARCHIES = {
    "one": ([32 * KIB], [4.0, 300.0]),
    "two": ([32 * KIB, 1 * MIB], [4.0, 14.0, 350.0]),
    "three": ([32 * KIB, 512 * KIB, 16 * MIB], [4.0, 14.0, 50.0, 400.0]),
    "three, large and close": ([48 * KIB, 2 * MIB, 24 * MIB], [5.0, 15.0, 70.0, 280.0]),
}


def sweep(
    ends: list[float], cycles: list[float], blur_octaves: float, noise: float, seed: int = 0, largest: float = 128 * MIB
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sizes half an octave apart, and the cycles per load there: a level's share falls from 1 to 0 over
    `blur_octaves` around its end."""
    sizes = 4096 * 2 ** np.arange(0, np.log2(largest / 4096) + 0.01, 0.5)
    latency = np.full(len(sizes), cycles[0])
    for end, below, above in zip(ends, cycles, cycles[1:], strict=False):
        share = np.clip(np.log2(sizes / end) / max(blur_octaves, 0.01) + 0.5, 0, 1)
        latency += share * (above - below)
    rng = np.random.default_rng(seed)
    return sizes, latency * (1 + noise * rng.standard_normal(len(sizes)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.03])
@pytest.mark.parametrize("blur", [0.0, 1.0])
@pytest.mark.parametrize("name", HIERARCHIES)
def test_every_level_is_found(name: str, blur: float, noise: float, seed: int) -> None:
    ends, cycles = HIERARCHIES[name]
    found = plateaus(*sweep(ends, cycles, blur, noise, seed))
    assert [each.cycles for each in found] == pytest.approx(cycles, rel=0.1)


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("blur", [0.0, 1.0])
@pytest.mark.parametrize("name", HIERARCHIES)
def test_boundaries_lie_within_half_an_octave(name: str, blur: float, noise: float) -> None:
    ends, cycles = HIERARCHIES[name]
    sizes, latency = sweep(ends, cycles, blur, noise)
    found = plateaus(sizes, latency)
    marked = [boundary(inner, outer, sizes, latency) for inner, outer in pairwise(found)]
    for mark, end in zip(marked, ends, strict=True):
        # a blurred end begins half a blur early, and the sweep has a point every half octave
        assert -0.5 * blur - 0.5 <= np.log2(mark / end) <= 0.5


def test_a_gradual_transition_is_no_level() -> None:
    ends, cycles = HIERARCHIES["three"]
    found = plateaus(*sweep(ends, cycles, 2.0, 0.01))
    assert [each.cycles for each in found] == pytest.approx(cycles, rel=0.15)


def test_a_sweep_that_ends_inside_the_last_cache_shows_no_memory() -> None:
    ends, cycles = HIERARCHIES["three"]
    found = plateaus(*sweep(ends, cycles, 1.0, 0.01, largest=8 * MIB))
    assert [each.cycles for each in found] == pytest.approx(cycles[:3], rel=0.1)


@given(st.lists(st.floats(0.1, 1e4), min_size=1, max_size=40))
def test_rising_never_falls_and_stays_below(values: list[float]) -> None:
    given_values = np.array(values)
    smooth = rising(given_values)
    assert smooth.shape == given_values.shape
    assert (np.diff(smooth) >= -1e-9).all()
    assert (smooth <= given_values).all()
    assert smooth[-1] == given_values[-1]


def test_a_level_is_reported_behind_a_walk_that_leaves_no_lines_in_the_one_before() -> None:
    """Behind the first walk some lines still answer from the first level, in one group with those of the second."""
    answers = [Answer(12.8, 1.0, 0), Answer(14.0, 1.0, 1), Answer(14.0, 0.97, 2), Answer(45.0, 0.9, 6)]
    levels, hidden = levels_between(answers, 5.0, 300.0)
    assert [level.cycles for level in levels] == [14.0, 45.0]
    assert hidden == float("inf")


def mixed(nearer: float, cycles: float, share: float, mixed_share: float, walk: int) -> Answer:
    """A group of `cycles` of which `mixed_share` are lines of `nearer` cycles."""
    apart = cycles - nearer
    mean, excess = cycles - mixed_share * apart, mixed_share * (1 - mixed_share) * apart**2
    return Answer(mean, share, walk, 0.1, excess)


def test_lines_of_the_first_level_in_one_group_with_the_seconds_make_no_level_between() -> None:
    """Where the jitter is as long as what parts the two; the walk with the fewest of them is taken."""
    answers = [mixed(4.0, 11.0, *group) for group in ((0.84, 0.3, 0), (0.76, 0.2, 1), (0.47, 0.03, 2), (0.31, 0.0, 3))]
    levels, hidden = levels_between(answers, 4.0, 450.0)
    assert [round(level.cycles, 6) for level in levels] == [11.0]
    assert levels[0].walk == 2
    assert hidden == float("inf")


def test_a_level_whose_own_lines_differ_is_taken_as_it_is() -> None:
    """Slices of a last level: the same spread behind every walk says nothing of lines from elsewhere."""
    answers = [Answer(14.0, 1.0, 0, 0.1, 0.2)] + [
        Answer(50.0, share, walk, 0.5, 25.0) for walk, share in ((5, 0.9), (6, 0.6))
    ]
    levels, _ = levels_between(answers, 4.0, 450.0)
    assert [level.walk for level in levels] == [0, 5]
    assert levels[1].cycles == pytest.approx(50.0, rel=0.02)


def test_a_cache_whose_lines_are_partly_memorys_is_not_moved_towards_memory() -> None:
    answers = [Answer(14.0, 1.0, 0, 0.1)] + [
        Answer(90.0 + p * 110.0, 1.0, walk, 0.5, p * (1 - p) * 110.0**2) for p, walk in ((0.05, 4), (0.1, 5))
    ]
    levels, hidden = levels_between(answers, 4.0, 200.0)
    assert [level.cycles for level in levels] == pytest.approx([14.0, 95.0], abs=6.0)
    assert hidden == float("inf")
