"""Where the caches are: working sets that each level serves, from a sweep of sizes, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.stats.plateaus import Plateau, plateaus, rising

from .params import Params

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Levels:
    """What the sweep says of the caches.

    `first_bytes`: the largest working set that the first one serves. `second` and `third`: working sets that lines from
    the second one and from one beyond it serve (None where none was found), and what a step takes there.
    `near_ticks`, `lost_ticks` and `memory_ticks`: a step that the first one serves, one over lines that the first one
    alone has lost, and one over flushed lines.
    `sizes` and `ticks`: the sweep."""

    first_bytes: float
    second: float
    second_ticks: float
    third: float | None
    third_ticks: float
    near_ticks: float
    lost_ticks: float
    memory_ticks: float
    sizes: Numbers
    ticks: Numbers

    def at(self, size_bytes: float) -> float:
        """What a step takes in a working set of that size."""
        return float(np.interp(np.log2(size_bytes), np.log2(self.sizes), self.ticks))

    @property
    def left_in_first(self) -> float:
        """Fraction of the second level's working set that a random replacement keeps in the first one."""
        return left_behind(self.second / self.first_bytes)


def left_behind(ratio: float) -> float:
    """Fraction of the accesses of a cyclic chase over `ratio` times a cache's lines that hit if it replaces lines at
    random: a line survives the misses until it comes again with exp(-misses / lines), so that h = exp(-(1 - h) ratio);
    with LRU there are none."""
    fraction = 0.0
    for _ in range(100):  # converges from below for every ratio above one
        fraction = float(np.exp(-(1 - fraction) * ratio))
    return fraction


def levels_of(
    sizes: Numbers, ticks: Numbers, memory_ticks: float, params: Params, lost_ticks: float | None = None
) -> Levels:
    """Working sets of each level from a sweep (shape (points,) each), what a line from memory takes, and one that the
    first level alone has lost, where that is known.

    What is clearly slower than the first level and changes little over an octave is another level, even where no whole
    plateau shows: random replacement and misses of a TLB turn plateaus into slopes. Steps that take less than a line
    that the first level has lost are a mixture of both, and steps that take much longer come from further away. Of the
    second level no larger a working set than needed is taken, as large ones miss the first TLB."""
    near, smooth = float(ticks[0]), rising(ticks)
    growth = growth_of(sizes, smooth)
    first = float(sizes[ticks < params.beyond_first * near].max())
    cached = (smooth > params.beyond_first * near) & (smooth < params.before_memory * memory_ticks)
    known = lost_ticks is not None and params.beyond_first * near <= lost_ticks <= params.before_memory * memory_ticks
    if lost_ticks is None or not known:
        at = _second(sizes, growth, cached, first, params)
    else:
        own = cached & (smooth >= lost_ticks / params.level_growth**0.5) & (smooth <= params.slower * lost_ticks)
        at = _served(sizes, growth, own, first, params)
    second = float(sizes[at]) if at is not None else params.outgrow * first
    step = float(np.interp(np.log2(second), np.log2(sizes), smooth))
    third = _third(sizes, ticks, memory_ticks, (second, step), params)
    return Levels(
        first_bytes=first,
        second=second,
        second_ticks=step,
        third=third[0] if third else None,
        third_ticks=third[1] if third else 0.0,
        near_ticks=near,
        lost_ticks=lost_ticks if known and lost_ticks is not None else step,
        memory_ticks=memory_ticks,
        sizes=sizes,
        ticks=smooth,
    )


def ends(sizes: Numbers, ticks: Numbers, memory_ticks: float, params: Params, lost_ticks: float) -> bool:
    """Whether larger working sets would show nothing more that is needed: memory serves them, or a third level has
    served a few sizes in a row."""
    if ticks[-1] >= params.reached_memory * memory_ticks:
        return True
    if len(sizes) < 2 * params.third_points or ticks[-1] > params.level_growth * ticks[-params.third_points]:
        return False
    levels = levels_of(sizes, ticks, memory_ticks, params, lost_ticks)
    return (
        levels.third is not None
        and float(sizes[-params.third_points]) > levels.second
        and bool(ticks[-params.third_points] > params.slower * levels.second_ticks)
    )


def growth_of(sizes: Numbers, smooth: Numbers) -> Numbers:
    """By which factor a step gets slower over the octave around each size; infinite at the ends of the sweep."""
    octaves = np.log2(sizes)
    later, before = (np.interp(octaves + side, octaves, np.log2(smooth)) for side in (0.5, -0.5))
    found: Numbers = np.exp2(later - before)
    found[(octaves + 0.5 > octaves[-1] + 1e-9) | (octaves - 0.5 < octaves[0] - 1e-9)] = np.inf
    return found


def _served(sizes: Numbers, growth: Numbers, own: NDArray[np.bool_], first: float, params: Params) -> int | None:
    """Of the points whose steps take what the second level does, the smallest flat one that the first level keeps
    nothing of, or else the flattest."""
    flat = np.flatnonzero(own & (growth <= params.level_growth) & (sizes >= params.outgrow * first * 0.99))
    if len(flat):
        return int(flat[0])
    some = np.flatnonzero(own & (sizes > first))
    return int(some[np.argmin(growth[some])]) if len(some) else None


def _second(sizes: Numbers, growth: Numbers, cached: NDArray[np.bool_], first: float, params: Params) -> int | None:
    """The point of the sweep that the second level serves: the smallest flat one that the first level keeps nothing of;
    where there is none the flattest that it doesn't hold."""
    flat = np.flatnonzero(cached & (growth <= params.level_growth) & (sizes >= params.outgrow * first * 0.99))
    some = np.flatnonzero(cached & (sizes > first))
    if len(flat) and sizes[flat[0]] <= params.next_within * first:
        return int(flat[0])
    if not len(some):
        return None
    near = some[sizes[some] <= params.next_within * first]
    candidates = near if len(near) else some
    return int(candidates[np.argmin(growth[candidates])])


def _third(
    sizes: Numbers, ticks: Numbers, memory_ticks: float, second: tuple[float, float], params: Params
) -> tuple[float, float] | None:
    """A working set that a further cache serves and what a step takes there: the middle of the longest plateau between
    the second level and memory, or else the flattest point."""
    slowest, quickest = params.before_memory * memory_ticks, params.slower * second[1]

    def between(each: Plateau) -> bool:
        # the last point alone counts as a plateau, and may be on the way to memory
        several = each.high_bytes > each.low_bytes
        return several and quickest < each.cycles < slowest and each.low_bytes > second[0]

    found = [each for each in plateaus(sizes, ticks) if between(each)]
    if found:
        longest = max(found, key=lambda each: each.high_bytes / each.low_bytes)
        return longest.middle_bytes, longest.cycles
    smooth = rising(ticks)
    growth = growth_of(sizes, smooth)
    inside = (smooth > quickest) & (smooth < slowest) & (sizes > second[0]) & (growth <= params.level_growth)
    if not inside.any():
        return None
    at = int(np.flatnonzero(inside)[np.argmin(growth[inside])])
    return float(sizes[at]), float(smooth[at])
