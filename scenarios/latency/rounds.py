"""What is timed in a round: the clock, and every level by single loads and by chains of dependent loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from setebench.calibration import MEMORY, Walk
from setebench.experiments.calibrate import TickRate, measure_tick_rate, overheads, step_ticks
from setebench.experiments.lines.placing import WALK, Place, Timed
from setebench.machine import Region, Ticks
from setebench.probe import Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

from .params import Params


@dataclass(frozen=True)
class Timings:
    """One level, once: single loads with the additions timed beside them, chains by length (ticks, shape (n,) each),
    and ticks of a load, whatever served it: the slope of chains over their length; in L1 that of a long chase."""

    singles: Timed
    chains: Mapping[int, Ticks]
    slope: float


@dataclass
class Round:
    """What one round gave. Every level is measured in it, memory in parts between the others: drift falls on all alike,
    and neighbours disturb memory most, in bursts of milliseconds that do not average out in one part. Vector loads take
    `longer` than 8-byte loads, fenced, by level and size, and `chase_longer` by a step of a chase in L1 (cycles)."""

    tick_rate: TickRate
    overheads: dict[str, float]
    transfer_cycles: float
    levels: dict[str, list[Timings]] = field(default_factory=dict)
    longer: dict[tuple[str, int], float] = field(default_factory=dict)
    chase_longer: dict[int, float] = field(default_factory=dict)


def measure_round(context: Context, region: Region, places: Iterable[Place], number: int, params: Params) -> Round:
    """Calibrate, then time every level on the lines of its place, and memory between them and behind."""
    tick_rate = measure_tick_rate(context, params.calibration)
    found = Round(tick_rate, overheads(context, params.overhead), _transfer_cycles(context, tick_rate, params))
    ordered = list(places)
    parts = len(ordered) + 1
    for place in (*ordered, None):
        if place is not None:
            place.settle(context)
            found.levels[place.level] = [_time(context, place, params)]
            _vectors(context, place, number, found, params)
        memory = Place(context, region, MEMORY, Walk())  # anew: other places' lines are linked over its own
        found.levels.setdefault(MEMORY, []).append(_time(context, memory, params, parts))
    _vectors(context, memory, number, found, params)
    return found


def steps_of(places: Iterable[Place], params: Params) -> int:
    """About how many steps of traversals a round takes."""
    return sum(place.steps * place.repetitions(params.singles) * 2 for place in places)


def _time(context: Context, place: Place, params: Params, parts: int = 1) -> Timings:
    """Time one level; `parts` share the samples of a round."""
    singles = place.time_singles(context, place.repetitions(-(-params.singles // parts)))
    if place.level == "l1":
        return Timings(singles, {}, _chase_ticks(context, place, 8, params))
    twice = 1 if place.long else 2
    chains = place.time_chains(context, twice * place.repetitions(-(-params.chains // parts)))
    return Timings(singles, chains, _slope(chains, step_ticks(context)))


def _chase_ticks(context: Context, place: Place, size: int, params: Params) -> float:
    """Ticks per step of a chase that goes round and round in L1, where there is no need to keep it short."""
    step, (short, long) = step_ticks(context), params.chase
    means = [
        mean_ticks(context.machine.run(probe, place.placements(params.chases), cpu=context.cpu, warmup=2).ravel(), step)
        for probe in (Probe().start().chase(WALK, steps, size).stop() for steps in (short, long))
    ]
    return (means[1] - means[0]) / (long - short)


def _vectors(context: Context, place: Place, number: int, found: Round, params: Params) -> None:
    """What vector loads take longer, in the first few rounds."""
    if number >= (params.traversed_vector_rounds if place.steps and place.level != "l1" else params.vector_rounds):
        return
    per_tick = found.tick_rate.cycles_per_tick
    for size in (size for size in context.machine.facts.access_sizes if size > 8):
        found.longer[place.level, size] = _fenced_ticks(context, place, size, params) * per_tick
        if place.level == "l1":
            surplus = _chase_ticks(context, place, size, params) - found.levels[place.level][0].slope
            found.chase_longer[size] = surplus * per_tick


def _fenced_ticks(context: Context, place: Place, size: int, params: Params) -> float:
    """Ticks that a vector load takes longer than an 8-byte load, from fenced loads of both sizes in turn."""
    step = step_ticks(context)
    probe, loads = place.fenced((8, size, size, 8))
    placements = place.placements(place.repetitions(params.fenced) + place.warmup)
    ticks = context.machine.run(probe, placements, cpu=context.cpu, warmup=place.warmup)
    return (mean_ticks(ticks[:, 1:3].ravel(), step) - mean_ticks(ticks[:, [0, 3]].ravel(), step)) / loads


def _transfer_cycles(context: Context, tick_rate: TickRate, params: Params) -> float:
    """Cycles of a round trip from an integer to a vector register and back."""
    few, many = 50, 250
    short, long = (
        mean_ticks(
            context.machine.run(Probe().start().transfer(n).stop(), params.transfers, cpu=context.cpu, warmup=4).ravel()
        )
        for n in (few, many)
    )
    return (long - short) * tick_rate.cycles_per_tick / (many - few)


def _slope(chains: Mapping[int, Ticks], step: float) -> float:
    lengths = np.array(sorted(chains), dtype=np.float64)
    means = np.array([mean_ticks(chains[int(length)], step) for length in lengths])
    weights = np.array([len(chains[int(length)]) for length in lengths], dtype=np.float64)
    centred = lengths - weights @ lengths / weights.sum()
    return float((weights * centred) @ means / (weights @ centred**2))


def crude_cycles(one: Round, level: str) -> float:
    """Cycles of a load from a level in one round, whatever served it."""
    return float(np.mean([timings.slope for timings in one.levels[level]])) * one.tick_rate.cycles_per_tick
