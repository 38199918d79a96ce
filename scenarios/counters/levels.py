"""Where the caches are: working sets that each level serves, and how many levels there are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from setebench.calibration import Levels as Found
from setebench.machine import Ticks
from setebench.stats.plateaus import rising
from setebench.stats.served import density, quantised_variance
from setebench.stats.ticks.location import mean_ticks, undisturbed

from .params import Params

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Levels:
    """What timing says of the caches.

    `first_bytes`: the largest working set that the first one serves. `second` and `third`: working sets that lines from
    the second one and from one beyond it serve (None where none was found). `numbered`: whether it is known that there
    is a third one, or none. `near_ticks`, `lost_ticks`, `third_ticks` and `memory_ticks`: a step that the first one
    serves, one over lines that the first one alone has lost, one that the third one serves, and one over flushed
    lines."""

    first_bytes: float
    second: float
    near_ticks: float
    lost_ticks: float
    memory_ticks: float
    third: float | None = None
    third_ticks: float = 0.0
    numbered: bool = False

    @property
    def loads(self) -> dict[str, float]:
        """What a load takes by the level that its line is in, ticks; one from beyond the second is memory's where no
        third is known."""
        third = {} if self.third is None else {"l3": self.third_ticks}
        return {"l1": self.near_ticks, "l2": self.lost_ticks, **third, "memory": self.memory_ticks}

    @property
    def next_ticks(self) -> float:
        """A step over lines that the second level has not: the third one's, or memory's."""
        return self.third_ticks if self.third is not None else self.memory_ticks


def levels_of(sizes: Numbers, ticks: Numbers, memory_ticks: float, params: Params, lost_ticks: float) -> Levels:
    """Working sets of the first two levels from a sweep (shape (points,) each), what a line from memory takes, and one
    that the first level alone has lost.

    Steps that take less than that are a mixture of both, and steps that take much longer come from further away. Of the
    second level no larger a working set than needed is taken, as large ones miss the first TLB. Where what was lost is
    no line of a second level (it takes what the first one does, or memory), what is clearly slower than the first level
    and changes little over an octave is the second one."""
    near, smooth = float(ticks[0]), rising(ticks)
    first = float(sizes[ticks < params.beyond_first * near].max())
    own = (smooth > params.beyond_first * near) & (smooth < params.before_memory * memory_ticks)
    known = _is_second(lost_ticks, near, memory_ticks, params)
    if known:
        own &= (smooth >= lost_ticks / params.level_growth**0.5) & (smooth <= params.slower * lost_ticks)
    at = _served(sizes, growth_of(sizes, smooth), own, first, params)
    second = float(sizes[at]) if at is not None else params.outgrow * first
    return Levels(
        first_bytes=first,
        second=second,
        near_ticks=near,
        lost_ticks=lost_ticks if known else float(np.interp(np.log2(second), np.log2(sizes), smooth)),
        memory_ticks=memory_ticks,
    )


def numbered(levels: Levels, found: Found, cycles_per_tick: float, params: Params) -> Levels:
    """With what lies beyond the second level by the mixture that all working sets are (`find_levels`), where its second
    level is the one whose lines the first one loses, and none may hide before those that it has."""
    caches = [found.cycles[name] / cycles_per_tick for name in found.caches]
    if len(caches) < 2 or np.isfinite(found.hidden_cycles):
        return levels
    if not 1 / params.slower < caches[1] / levels.lost_ticks < params.slower:
        return levels
    if len(caches) == 2:
        return replace(levels, numbered=True)
    return replace(levels, numbered=True, third=found.walks[found.caches[2]].bytes, third_ticks=caches[2])


def beyond(ticks: Ticks, hits: Ticks, step: float, levels: Levels, params: Params) -> dict[str, float]:
    """The fractions of timed loads that were in none of the levels before each, beside loads that the first one served:
    of a mixture of levels whose latencies are known, by expectation maximisation."""
    quiet = hits[undisturbed(hits, step)]
    hit, names, taken = mean_ticks(hits, step), list(levels.loads), np.array(list(levels.loads.values()))
    jitter2 = max(float(quiet.var()) - quantised_variance(hit, step), params.jitter_ticks**2)
    longest = hit + taken[-1] - taken[0]
    likely = density(
        np.minimum(ticks, longest)[:, None].astype(np.float64),
        hit + taken - taken[0],
        jitter2 + (params.still_there * taken) ** 2,
        step,
    )
    likely += np.finfo(np.float64).tiny  # what fits no level says nothing of them
    weights = np.full(len(taken), 1 / len(taken))
    for _ in range(params.turns):
        parts = likely * weights
        weights = (parts / parts.sum(axis=1, keepdims=True)).mean(axis=0)
    further = dict(zip(names, np.cumsum(weights[::-1])[::-1].tolist(), strict=True))
    return {"l3": further["memory"], **further}


def ends(ticks: Numbers, memory_ticks: float, params: Params, lost_ticks: float) -> bool:
    """Whether larger working sets would show nothing more that is needed: the second level serves them no longer."""
    if ticks[-1] >= params.reached_memory * memory_ticks:
        return True
    return _is_second(lost_ticks, ticks[0], memory_ticks, params) and min(ticks[-2:]) > params.slower * lost_ticks


def _is_second(lost_ticks: float, near_ticks: float, memory_ticks: float, params: Params) -> bool:
    """Whether what a lost line takes is a second level's: neither the first one's nor memory's."""
    return params.beyond_first * near_ticks <= lost_ticks <= params.before_memory * memory_ticks


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
