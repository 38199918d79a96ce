"""Misses of loads and stores: how many are in flight, and whether level 1 or something behind it limits them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from setebench.calibration import Walk
from setebench.experiments.bursts.bursts import Times
from setebench.stats.jump import Curve, calm_level
from setebench.stats.ticks.location import over_replicates

from .curves import Asked, Curves, nearest


@dataclass(frozen=True)
class Behind:
    """How much longer a hit in level 2 behind misses takes, by their number; whether its line really came from level 2;
    up to how many misses its delay would show: more take longer than what waits behind the hit; and the evictor lines
    (bytes) that left it there."""

    asked: Asked
    in_level_two: bool
    shows_up_to: int
    evictor_bytes: float


@dataclass(frozen=True)
class Demand:
    """Loads, stores and hits behind loads."""

    loads: Asked
    stores: Asked | None = None
    behind: Behind | None = None


def ask_demand(curves: Curves, levels: tuple[str, ...], walks: Mapping[str, Walk]) -> Demand:
    """Ask for the first two levels' misses in flight, or one's; `walks` bring lines to each level found."""
    most = curves.params.most
    loads = curves.search("loads", curves.bursts.loads, (1, most))
    stores = curves.search("stores", curves.bursts.stores, (1, most)) if "l2" in levels else None
    behind = _hits_behind(curves, walks["l2"].bytes, loads) if "l1" in levels and "l2" in walks else None
    return Demand(loads, stores, behind)


# -- a hit behind misses -----------------------------------------------------------------------------------------------


def _hits_behind(curves: Curves, evictor_bytes: float, loads: Asked) -> Behind:
    memory, bursts, params = curves.memory, curves.bursts, curves.params
    steps = _chase_behind(curves)
    evictor_bytes, in_level_two = _evicted_to_level_two(curves, evictor_bytes)
    alone = calm_level(np.stack([bursts.hit_behind(0, steps, evictor_bytes) for _ in range(params.chase_rounds)]))
    longest: dict[int, float] = {}

    def excess(count: int) -> Times:
        """Over the longer of the misses and of the hit with the chase behind it."""
        misses = calm_level(bursts.loads(count)) if count else 0.0
        longest[count] = max(longest.get(count, 0.0), misses)
        return bursts.hit_behind(count, steps, evictor_bytes) - max(misses, alone)

    # misses of a second wave take twice as long as one, which leaves so much of a chase behind the first to be seen
    most = min(2 * loads.ends[1], params.most) if loads.jumps else params.most
    unit = memory * (params.chase - 1)
    # what both levels let through level 1 lets through: its entries are no fewer than loads have, and mostly as many
    first = max(loads.ends[0] - 1 - loads.curve.params.near, 0) if loads.certain else 0
    curve = Curve(first, max(most, first + 1), unit, curves.rng)
    if loads.certain:
        curve.look_first_at(max(loads.last - 1, 0))
    asked = curves.go_on("hits behind misses", Asked(excess, curve))
    # a hit that waits for a miss delays the end by one, less what all the misses take longer than the chase
    hidden = [n for n, own in longest.items() if memory - max(own - alone, 0.0) < params.half * unit]
    return Behind(asked, in_level_two, min(hidden, default=params.most + 1) - 1, evictor_bytes)


def _chase_behind(curves: Curves) -> int:
    """Steps of the chase in level 1 behind a hit: `chase` times as long as a miss."""
    few, many = curves.params.chase_steps
    short, long = (calm_level(curves.bursts.chase_in_level_one(steps)) for steps in (few, many))
    return max(int(curves.params.chase * curves.memory * (many - few) / (long - short)), 1)


def _evicted_to_level_two(curves: Curves, evictor_bytes: float) -> tuple[float, bool]:
    """About so many bytes of evictor lines that leave the line of the hit in level 2, and whether there are: the
    traversal that shows that level's latency goes round several times, and a level 2 of few ways may lose the line."""
    near = partial(curves.bursts.hit_behind, 0, 1)
    further = 0
    for _ in range(curves.params.evictor_tries):
        last, further = further, levels_off(curves, near, evictor_bytes)
        if further == 0:
            return evictor_bytes, True
        if last == -further:
            break
        evictor_bytes *= curves.params.evictor_ratio**-further
    return evictor_bytes, False


def levels_off(curves: Curves, near: Callable[[float], Times], evictor_bytes: float) -> int:
    """0 where a line that ought to be in level 2 behind evictors really comes from there, by its latency, -1 where it
    is nearer, 1 where it is further; asked until that is clear, for near levels may differ by less than a clock step.
    `near` times the line behind so many bytes of evictors; 0 leaves it in level 1."""
    params, cycles = curves.params, curves.cycles
    found: list[float] = []
    gone: list[float] = []
    while len(found) < params.most_hit_means:
        for _ in range(params.hit_means):
            first = curves.mean(partial(near, 0.0), params.hit_runs)
            behind = np.concatenate([near(evictor_bytes) for _ in range(params.hit_runs)])
            far = behind - first > params.half * curves.memory
            gone.append(float(far.mean()))
            found.append(curves.mean_of(behind[~far] if gone[-1] < 1 else behind) - first + cycles["l1"])
        mean = over_replicates(found)
        if nearest(mean.low, cycles) == nearest(mean.high, cycles):
            break
    if np.mean(gone) > params.gone:
        return 1
    return int(np.sign(cycles[nearest(mean.value, cycles)] - cycles["l2"]))
