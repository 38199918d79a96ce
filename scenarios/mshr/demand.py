"""Misses of loads and stores: how many are in flight, and whether level 1 or something behind it limits them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from setebench.calibration import MEMORY, Walk
from setebench.experiments.bursts.bursts import Times
from setebench.experiments.bursts.in_level import BurstsInLevel
from setebench.machine import Region
from setebench.stats.estimate import Interval
from setebench.stats.jump import Curve, calm_level
from setebench.stats.ticks.location import mean_ticks, over_replicates

from .curves import Asked, Curves


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
    """Loads, stores and hits behind loads. `kept` is how many misses the throughput of parallel chases keeps in flight,
    of lines in memory and in the levels between; of the latter, without what is spent before level 1."""

    loads: Asked
    stores: Asked | None = None
    behind: Behind | None = None
    kept: dict[str, Interval] = field(default_factory=dict)


def ask_demand(curves: Curves, levels: tuple[str, ...], walks: Mapping[str, Walk], region: Region) -> Demand:
    """Ask for the first two levels' misses in flight, or one's; `walks` bring lines to each level found."""
    params, context, bursts = curves.params, curves.context, curves.bursts
    loads = curves.search("loads", bursts.loads, (1, params.most))
    stores = curves.search("stores", bursts.stores, (1, params.most)) if "l2" in levels else None
    kept = {}
    if loads.jumps:
        context.progress("parallel chases")
        kept[MEMORY] = _kept_from_memory(curves, loads.last)
    if loads.jumps and loads.last > 1:
        for number, name in enumerate(list(walks)[1:-1]):
            if not BurstsInLevel.fits(region, walks[name]):  # a last level of hundreds of megabytes
                continue
            context.progress(f"parallel chases in {name}")
            placed = BurstsInLevel(context, region, context.rng(5 + number), walks[name])
            if (found := _kept_from(placed, curves, name, 2 * loads.last)) is not None:
                kept[name] = found
    behind = _hits_behind(curves, walks["l2"].bytes, loads) if "l1" in levels and "l2" in walks else None
    return Demand(loads, stores, behind, kept)


# -- a hit behind misses -----------------------------------------------------------------------------------------------


def _hits_behind(curves: Curves, evictor_bytes: float, loads: Asked) -> Behind:
    memory, bursts, params = curves.memory, curves.bursts, curves.params
    steps, hides = _chase_behind(curves)
    evictor_bytes, in_level_two = _evicted_to_level_two(curves, evictor_bytes)
    alone = calm_level(np.stack([bursts.hit_behind(0, steps, evictor_bytes) for _ in range(params.chase_rounds)]))
    longest: dict[int, float] = {}

    def excess(count: int) -> Times:
        """Over the longer of the misses and of the hit with the chase behind it."""
        misses = calm_level(bursts.loads(count)) if count else 0.0
        longest[count] = max(longest.get(count, 0.0), misses)
        return bursts.hit_behind(count, steps, evictor_bytes) - max(misses, alone)

    # misses of a second wave take twice as long as one: a chase no longer than that would never show behind them
    waves = 2 if hides > params.hides else 1
    most = min(waves * loads.ends[1], params.most) if loads.jumps else params.most
    unit = memory * (hides - 1 if waves == 2 else min(hides, 1.0))
    # what both levels let through level 1 lets through: its entries are no fewer than loads have, and mostly as many
    first = max(loads.ends[0] - 1 - loads.curve.params.near, 0) if loads.certain else 0
    curve = Curve(first, max(most, first + 1), unit, curves.rng)
    if loads.certain:
        curve.look_first_at(max(loads.last - 1, 0))
    asked = curves.go_on("hits behind misses", Asked(excess, curve))
    # a hit that waits for a miss delays the end by one, less what all the misses take longer than the chase
    hidden = [n for n, own in longest.items() if memory - max(own - alone, 0.0) < params.half * unit]
    return Behind(asked, in_level_two, min(hidden, default=params.most + 1) - 1, evictor_bytes)


def _chase_behind(curves: Curves) -> tuple[int, float]:
    """Steps of the chase in level 1 behind a hit, and how many misses' time they take."""
    params = curves.params
    few, many = params.chase_steps // 4, params.chase_steps
    short, long = (calm_level(curves.bursts.chase_in_level_one(steps)) for steps in (few, many))
    step = (long - short) / (many - few)
    steps = max(min(int(params.chase * curves.memory / step), params.chase_steps), 1)
    return steps, steps * step / curves.memory


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
    ordered = sorted(cycles.values())
    inner, own, outer = ordered[(at := ordered.index(cycles["l2"])) - 1 : at + 2]
    low, high = (inner * own) ** 0.5, (own * outer) ** 0.5
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
        if mean.high < low or low < mean.low < mean.high < high or mean.low > high:
            break
    if np.mean(gone) > params.gone:
        return 1
    return int(mean.value >= high) - int(mean.value <= low)


# -- throughput --------------------------------------------------------------------------------------------------------


def _kept_from_memory(curves: Curves, last: int) -> Interval:
    """Misses that the throughput of parallel chases keeps in flight, by Little's law: the most of twice as many chases
    as loads can be in flight, and as many."""
    params = curves.params

    def step_cycles(count: int) -> float:
        long, short = (
            calm_level(np.concatenate([curves.bursts.chases(count, steps) for _ in range(params.chase_rounds)]))
            for steps in (params.chase_depth, 1)
        )
        return (long - short) / (params.chase_depth - 1)

    one = step_cycles(1)
    most = max(count * one / max(step_cycles(count), 1.0) for count in (last, 2 * last))
    return Interval(most, most, most)


def _kept_from(placed: BurstsInLevel, curves: Curves, level: str, count: int) -> Interval | None:
    """The same of lines in `level`; None where the lines are not found there, or what else goes on there hides them.
    Only the time behind level 1 counts, in which a load surely holds an entry."""
    # what prefetchers learned from the traversal they spend on the first burst, and lines beside fill the queues
    shapes = [(count, 1), *((own, steps) for own in (1, count) for steps in (1, 2))]
    times = np.concatenate([placed.chases_of(shapes) for _ in range(curves.params.level_rounds)])[:, 1:]
    one, two = (mean_ticks(own, placed.step_cycles) for own in times.T[:2])
    load = max(two - one, 1.0)
    if min(curves.cycles, key=lambda name: abs(np.log(load / curves.cycles[name]))) != level:
        return None
    found = kept_in_flight(times, count, placed.step_cycles, curves)
    return None if found is None else found.scaled(max(1 - curves.cycles["l1"] / load, 0.0))


def kept_in_flight(times: Times, count: int, step: float, curves: Curves) -> Interval | None:
    """How many misses `count` parallel chases keep in flight, by Little's law: as many as one step of them takes less
    than a load after the other. `times` of one load, of two in a row, of one step of all and of two, shape
    (repetitions, 4), on a clock that moves in steps of `step`. None where the second step takes no time: something held
    up the first.

    Some of the lines may have gone further out, and there are few repetitions behind a long traversal: all four means
    are rough, and their ratio rougher still. So the interval comes from repetitions drawn anew."""

    def of(rows: Times) -> tuple[float, float]:
        one, two, short, long = (mean_ticks(own, step) for own in rows.T)
        load, further = two - one, long - short
        if load <= 0:
            return np.inf, 0.0
        # no step is over before a load is, so no more than all are in flight
        return further / load, count / max(further / load, 1.0)

    ratio, value = of(times)
    if ratio < curves.params.half:
        return None
    drawn = curves.rng.integers(0, len(times), (curves.params.resamples, len(times)))
    low, high = np.quantile([of(times[rows])[1] for rows in drawn], (0.025, 0.975), method="inverted_cdf")
    return Interval(value, min(float(low), value), max(float(high), value))
