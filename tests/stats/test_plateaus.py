"""Plateaus of synthetic curves: flat levels with rises of any shape between them, in rounds of which some were
disturbed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from setebench.stats.plateaus import Plateau, plateaus

Numbers = NDArray[np.float64]

PER_OCTAVE = 3
SIZES = 4096 * 2.0 ** (np.arange(14 * PER_OCTAVE) / PER_OCTAVE)

FEW = settings(max_examples=30, deadline=None)


@st.composite
def hierarchies(draw: st.DrawFn) -> tuple[list[float], list[float], float]:
    """Cycles of two to four levels, ascending; the octaves where each but the last begins to be outgrown; and how many
    octaves that takes. A level is flat for two octaves or more."""
    ratios = draw(st.lists(st.floats(1.6, 6.0), min_size=1, max_size=3))
    levels = np.cumprod([draw(st.floats(3.0, 6.0)), *ratios]).tolist()
    rise = draw(st.floats(0.3, 1.0))
    flats = draw(st.lists(st.floats(2.0, 14 / len(levels) - rise), min_size=len(ratios), max_size=len(ratios)))
    ends = [sum(flats[: number + 1]) + number * rise for number in range(len(flats))]
    return levels, ends, rise


def curve(levels: list[float], ends: list[float], rise: float, bent: float = 1.0) -> Numbers:
    """Costs by size; `bent` is the power of the share that each rise has risen by."""
    octaves = np.log2(SIZES / SIZES[0])
    costs = np.full(len(SIZES), levels[0])
    for end, near, far in zip(ends, levels, levels[1:], strict=False):
        costs += (far - near) * np.clip((octaves - end) / rise, 0.0, 1.0) ** bent
    return costs


def noisy(costs: Numbers, seed: int, disturbed: int = 0) -> Numbers:
    """Six rounds that differ by half a percent; in so many of them each size costs up to twice as much."""
    rng = np.random.default_rng(seed)
    rounds = costs * (1 + 0.005 * rng.standard_normal((6, len(costs))))
    rounds[:disturbed] *= 1 + rng.random((disturbed, len(costs)))
    return rounds


def cycles(found: list[Plateau]) -> list[float]:
    return [flat.cycles for flat in found]


@FEW
@given(hierarchies(), st.floats(0.4, 2.5), st.integers(0, 1 << 30), st.integers(0, 3))
def test_every_level_is_found_and_none_made_up(
    made: tuple[list[float], list[float], float], bent: float, seed: int, disturbed: int
) -> None:
    """Whatever the shape of what lies between them, and beside rounds that were disturbed; and none of its sizes lies
    on a rise but at its ends."""
    levels, ends, rise = made
    found = plateaus(SIZES, noisy(curve(*made, bent), seed, disturbed))
    assert cycles(found) == pytest.approx(levels, rel=0.03 + 0.01 * (disturbed > 0))
    if disturbed:
        return
    octaves = np.log2(SIZES / SIZES[0])
    for flat, begin, end in zip(found, [0.0, *(each + rise for each in ends)], [*ends, 14.0], strict=True):
        assert octaves[flat.first] > begin - rise / 2 - 0.5 / PER_OCTAVE
        assert octaves[flat.last] < end + rise / 2 + 0.5 / PER_OCTAVE


@FEW
@given(st.floats(1.15, 4.0), st.integers(0, 1 << 30))
def test_a_slope_that_nowhere_rests_is_no_level(per_octave: float, seed: int) -> None:
    steep = 4.0 * np.maximum(per_octave, 1.3) ** np.log2(SIZES / SIZES[0])
    assert plateaus(SIZES, noisy(steep, seed)) == []


def test_a_size_that_all_rounds_had_disturbed_is_left_out() -> None:
    rounds = noisy(curve([5.0, 16.0, 300.0], [4.0, 9.0], 0.5), 1)
    rounds[:, 20] *= 1.5
    assert cycles(plateaus(SIZES, rounds)) == pytest.approx([5.0, 16.0, 300.0], rel=0.03)


def test_sizes_that_no_round_has_are_left_out_and_keep_their_numbers() -> None:
    rounds = noisy(curve([5.0, 16.0, 300.0], [4.0, 9.0], 0.5), 1)
    rounds[:, 5:7] = np.nan
    rounds[2, 35:] = np.nan
    found = plateaus(SIZES, rounds)
    assert cycles(found) == pytest.approx([5.0, 16.0, 300.0], rel=0.03)
    assert found[-1].last == len(SIZES) - 1
