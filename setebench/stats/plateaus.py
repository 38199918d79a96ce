"""Plateaus in a sweep of working sets: where mean latencies stay the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FLAT_SLOPE = 0.35
"""On a plateau latency grows by less than 2 ** 0.35 (27 %) per doubling of the working set. Levels of every published
hierarchy differ by half or more, which even a slow replacement policy crosses within two doublings."""

FLAT_RATIO = 1.13
"""Nor does it grow by more than this within half an octave; a steeper step between two close points that the points
around them don't bear out is noise."""

LEAST_OCTAVES, LEAST_OCTAVES_BETWEEN_CLIFFS, CLIFF_RATIO = 0.9, 0.3, 1.4
"""A plateau spans about an octave at least. Something shorter is a slope between two levels that happens to look flat,
unless latency changes by so much within half an octave on both sides of it, and not at all within."""


@dataclass(frozen=True)
class Plateau:
    """Working sets from `low_bytes` to `high_bytes` cost about `cycles` per load."""

    low_bytes: float
    high_bytes: float
    cycles: float

    @property
    def middle_bytes(self) -> float:
        """The size furthest from both ends."""
        return float(np.sqrt(self.low_bytes * self.high_bytes))


def rising(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The highest sequence that never falls and nowhere exceeds `values`, shape (n,): a larger working set can't be
    faster, and disturbances only slow a walk down, so a point above a later one was disturbed."""
    smooth: NDArray[np.float64] = np.minimum.accumulate(values[::-1])[::-1]
    return smooth


def plateaus(size_bytes: NDArray[np.float64], cycles: NDArray[np.float64]) -> list[Plateau]:
    """The plateaus of a sweep, nearest level first. Sizes ascend.

    The last group of points counts however short it is: the sweep may end just behind the last level's edge."""
    octaves = np.log2(size_bytes)
    smooth = np.log2(rising(cycles))
    slopes = np.diff(smooth) / np.diff(octaves)
    middles = (octaves[1:] + octaves[:-1]) / 2
    half_octave = np.interp(middles + 0.25, octaves, smooth) - np.interp(middles - 0.25, octaves, smooth)
    breaks = np.flatnonzero((slopes > FLAT_SLOPE) & (half_octave > np.log2(FLAT_RATIO))) + 1
    groups = np.split(np.arange(len(smooth)), breaks)
    return [
        Plateau(float(size_bytes[group[0]]), float(size_bytes[group[-1]]), float(np.median(cycles[group])))
        for group in groups
        if group[-1] == len(smooth) - 1 or _long_enough(octaves[group], cycles[group], octaves, smooth)
    ]


def _long_enough(
    own_octaves: NDArray[np.float64],
    own_cycles: NDArray[np.float64],
    octaves: NDArray[np.float64],
    smooth: NDArray[np.float64],
) -> bool:
    span = own_octaves[-1] - own_octaves[0]
    if span >= LEAST_OCTAVES:
        return True
    level = np.log2(np.median(own_cycles))
    before = np.interp(own_octaves[0] - 0.5, octaves, smooth, left=-np.inf)
    behind = np.interp(own_octaves[-1] + 0.5, octaves, smooth)
    cliffs = min(level - before, behind - level) > np.log2(CLIFF_RATIO)
    return bool(cliffs and span >= LEAST_OCTAVES_BETWEEN_CLIFFS and own_cycles.max() < FLAT_RATIO * own_cycles.min())
