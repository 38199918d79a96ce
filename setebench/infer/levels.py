"""Plateaus in a working-set sweep: which levels the latencies show, and where each ends; levels that loads behind walks
fall into. Knows no machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

FLAT_SLOPE = 0.35
"""On a plateau latency grows by less than 2 ** 0.35 (27 %) per doubling of the working set. Levels of every published
hierarchy differ by half or more, which even a slow replacement policy crosses within two doublings."""

FLAT_RATIO = 1.13
"""Nor does it grow by more than this within half an octave; a steeper step between two close points that the points
around them don't bear out is noise."""

LEAST_OCTAVES, LEAST_OCTAVES_BETWEEN_CLIFFS = 0.9, 0.3
CLIFF_RATIO = 1.4
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


def boundary(inner: Plateau, outer: Plateau, size_bytes: NDArray[np.float64], cycles: NDArray[np.float64]) -> float:
    """The size at which the inner level is outgrown: where the latency leaves its plateau by a tenth of the way to the
    next one, interpolated between the points of the sweep."""
    target = inner.cycles + 0.1 * (outer.cycles - inner.cycles)
    smooth = rising(cycles)
    above = np.flatnonzero((smooth >= target) & (size_bytes > inner.low_bytes))
    if not len(above) or above[0] == 0:
        return inner.high_bytes
    right = int(above[0])
    left = right - 1
    rise = smooth[right] - smooth[left]
    share = (target - smooth[left]) / rise if rise > 0 else 0.0
    return float(np.exp2(np.log2(size_bytes[left]) + share * np.log2(size_bytes[right] / size_bytes[left])))


SAME_LEVEL_RATIO = 1.25
OWN_SHARE, HIDDEN_SHARE = 0.25, 0.08
LONGER_WALK_SHARE = 0.95
"""A quarter of the lines in a group of their own is a level, and less than a twelfth is stray. A level is reported
behind the longest walk that leaves it so much of its largest share."""

MIXED_IN_RELATIVE = 0.04
"""A level is as good as alone behind a walk if lines of the level before lower what it takes by no more than this: that
much is left open from walk to walk anyway (`latency.WALK_TO_WALK`)."""

MORE_WALKS = 3
"""Walks each half as large again as the one before, which together make up for a first level that prefetchers made
look four times smaller than it is. Even longer ones would only take time."""


APART_ERRORS = 3.0
"""A small group is none of a known level's lines if it is so many standard errors away."""


@dataclass(frozen=True)
class Answer:
    """A group of lines that answered alike behind the walk of that number: in how many cycles, its share, the standard
    error of the cycles, and how much further its loads spread than the clock makes of one duration (cycles squared).
    `mixed_in_cycles` is what was added for lines of a nearer level."""

    cycles: float
    share: float
    walk: int
    error_cycles: float = 0.0
    excess_cycles2: float = 0.0
    mixed_in_cycles: float = 0.0

    def without_nearer(self, nearer_cycles: float) -> Answer:
        """The group without the lines that a nearer level may have in it, as many as its spread allows: a jitter as
        long as what parts two levels leaves their lines in one group.

        A share p of lines that take d cycles less lowers the mean by p d and adds p (1 - p) d ** 2 to the variance."""
        apart = self.cycles - nearer_cycles
        mixed_in = max(self.excess_cycles2, 0.0) / apart
        share = self.share * apart / (apart + mixed_in)
        return replace(self, cycles=self.cycles + mixed_in, share=share, mixed_in_cycles=mixed_in)


def _borne_out(answers: list[Answer], nearer_cycles: float) -> list[Answer]:
    """The answers, without lines of a nearer level where another walk, behind which there are hardly any, shows the
    level that is left. Where none does, they spread for another reason: lines from further out, or slices."""
    without = [each.without_nearer(nearer_cycles) for each in answers]
    pure = [each.cycles for each in without if each.mixed_in_cycles <= MIXED_IN_RELATIVE * each.cycles]
    return [
        purer if any(abs(purer.cycles - cycles) <= MIXED_IN_RELATIVE * cycles for cycles in pure) else each
        for each, purer in zip(answers, without, strict=True)
    ]


def levels_between(answers: list[Answer], first: float, memory: float) -> tuple[list[Answer], float]:
    """Levels between the first (`first` cycles) and memory, nearest first, from groups seen behind many walks: each as
    the answer behind the longest walk that shows it about as well as any, or, but for the last, some walks earlier. And
    the cycles of the nearest group that never had a fair share, infinite if there is none: a level may hide there, so
    those further out can't be numbered.

    Where the clock is fine enough to part levels, this also finds those that no walk leaves alone: the inner level
    still holds some lines where the outer one has taken others."""
    purer = _borne_out([each for each in answers if each.cycles > SAME_LEVEL_RATIO * first], first)
    between = sorted((each for each in purer if each.cycles < memory / SAME_LEVEL_RATIO), key=lambda each: each.cycles)
    clusters: list[list[Answer]] = []
    for each in between:
        if clusters and each.cycles < SAME_LEVEL_RATIO * clusters[-1][0].cycles:
            clusters[-1].append(each)
        else:
            clusters.append([each])
    best = [
        _longest_alike(cluster, MORE_WALKS if cluster is not clusters[-1] else len(answers)) for cluster in clusters
    ]
    levels = [each for each in best if each.share >= OWN_SHARE]
    known = [first, *(each.cycles for each in levels)]
    hidden = [each.cycles for each in best if HIDDEN_SHARE <= each.share < OWN_SHARE and not _one_of(each, known)]
    return levels, min(hidden, default=float("inf"))


def _longest_alike(cluster: list[Answer], more_walks: int) -> Answer:
    """Of the answers that have hardly more lines of the level before than any, and of these with about the largest
    share, the one behind the longest walk, at most so many after the shortest: lines that the level before still holds
    may hide in a level's group, where a step of the clock is no shorter than what parts the two."""
    fair = [each for each in cluster if each.share >= OWN_SHARE]
    purest = min((each.mixed_in_cycles for each in fair), default=float("inf"))
    pure = [each for each in fair if each.mixed_in_cycles <= purest + MIXED_IN_RELATIVE * each.cycles] or cluster
    largest = max(each.share for each in pure)
    alike = [each for each in pure if each.share >= LONGER_WALK_SHARE * largest]
    shortest = min(each.walk for each in alike)
    return max((each for each in alike if each.walk <= shortest + more_walks), key=lambda each: each.walk)


def _one_of(answer: Answer, known: list[float]) -> bool:
    """Whether a small group may be lines of a known level, as uncertain as the mean of few loads is."""
    return any(abs(answer.cycles - cycles) <= APART_ERRORS * answer.error_cycles for cycles in known)
