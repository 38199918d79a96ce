"""How many cycles a load takes from each level of the memory hierarchy.

Two ways side by side, which must agree. The SETE way (Fang et al. 2014, 3.1 and 5.1.1): one load is timed, dithered,
with the line placed in the level by its reuse distance and its TLB entry warmed by a companion line. The classical way:
a chain of dependent loads over the same lines, taken as the difference of a long and a short chain, so that no overhead
is left in it. A sweep of chases over growing working sets shows first where the levels end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from setebench.calibration import Levels, Walk
from setebench.infer.chains import Chained, all_steps, steps_alone
from setebench.infer.drift import over_run
from setebench.infer.latency import findings
from setebench.infer.latency_samples import Samples
from setebench.infer.ticks import dominant, histogram, mean_ticks, over_replicates
from setebench.machine import Region
from setebench.measure.alone import watch
from setebench.measure.calibrate import Ruler, measure_ruler, overheads, step_ticks
from setebench.measure.layout import REPEATED_SHIFTS
from setebench.measure.placing import WALK, Place, single_cycles
from setebench.measure.rounds import Rounds
from setebench.measure.sweep import find_walks, working_memory
from setebench.measure.walks import FINE_STEP_CYCLES
from setebench.probe import Probe
from setebench.results import Finding, Outcome
from setebench.scenario import Context, Scenario

REPETITIONS, FAST_REPETITIONS, CHAIN_REPETITIONS = 16, 10, 16
"""Of single loads and of chains, fewer where each needs a long walk."""

LONG_CHASE = (512, 2560)
"""Steps of the two chases in L1 whose difference is timed."""

VECTOR_ROUNDS, WALKED_VECTOR_ROUNDS, FENCED_REPETITIONS = 4, 2, 64
"""Rounds in which vector loads are measured too (what they take longer hardly drifts), and groups of fenced loads in
each, fewer behind walks."""


ROUNDS, FAST_ROUNDS = (6, 128), (6, 32)
"""Fewest and most rounds. Each is short: what drifts slowly is seen by many rounds that last for seconds together."""

ROUND_STEPS = 5_000_000
"""Steps of walks after which no further round begins, but for the fewest."""

LAYOUT_ROUNDS = 4
"""Rounds on the same lines where these have to settle first, which costs many walks."""


def answer(context: Context) -> Iterator[Finding]:
    """Yield the clock's findings, then those of every level."""
    effort = 0.4 if context.fast else 1.0
    context.progress("clock")
    step_ticks(context)
    watch(context)
    region = working_memory(context)
    try:
        context.progress("working-set sweep")
        levels = find_walks(context, region)
        rounds = Rounds(levels, step_ticks(context))
        least, most = FAST_ROUNDS if context.fast else ROUNDS
        places: dict[str, Place] = {}
        steps = 0
        while rounds.count < least or (
            rounds.count < most and steps < ROUND_STEPS and not rounds.settled(2.0 if context.fast else 1.0)
        ):
            context.progress(f"latency, round {rounds.count + 1} of at most {most}")
            ruler = measure_ruler(context, int(1000 * effort))
            rounds.rulers.append(ruler)
            rounds.overheads.append(overheads(context, int(300 * effort)))
            rounds.transfers.append(_transfer_cycles(context, ruler))
            if rounds.count % LAYOUT_ROUNDS == 1:
                places.clear()
            for name, walk in levels.items():
                if name != "memory" and not (name in places and walk.settling):
                    places[name] = Place(context, region, name, walk)
            _round(context, places.values(), region, ruler, rounds)
            steps += sum(place.steps * place.repetitions(REPETITIONS) * 2 for place in places.values())
    finally:
        context.machine.release(region)
    yield from _latency_findings(context, rounds)


# -- the clock -----------------------------------------------------------------------------------


OVERHEAD_RUN_TO_RUN = 0.015
"""Half the interval of an overhead at least: of 17 runs within some hours one told 2.5 % more of mfence than the
others, as steadily."""


def _clock_findings(context: Context, rounds: Rounds) -> Iterator[Finding]:
    """Step and overheads of the clock, and core cycles per tick."""
    step = step_ticks(context)
    yield Finding(
        parameter="clock.step",
        value=round(step, 3),
        unit="ticks",
        method="largest period that all elapsed times share",
    )
    calm = rounds.calm()
    told = {
        f"clock.overhead.{bracket}": (
            "ticks",
            over_run([rounds.overheads[n][bracket] for n in calm], OVERHEAD_RUN_TO_RUN),
        )
        for bracket in context.machine.facts.brackets
    }
    told["clock.cycles_per_tick"] = (
        "cycles/tick",
        over_run([rounds.rulers[n].cycles_per_tick for n in calm], 0.001),
    )
    for parameter, (unit, estimate) in told.items():
        method = "chained additions" if unit == "cycles/tick" else "empty interval"
        yield Finding(
            parameter=parameter,
            value=estimate.value,
            unit=unit,
            low=estimate.low,
            high=estimate.high,
            method=f"{method}, {len(calm)} of {rounds.count} rounds",
        )


def _round(context: Context, places: Iterable[Place], region: Region, ruler: Ruler, rounds: Rounds) -> None:
    """Measure every level once and add to the rounds' samples.

    Memory in parts, between the other levels and behind them: neighbours disturb it most, in bursts of milliseconds,
    and what differs between parts does not average out in one of them, however many loads it has."""
    counts, parts = (FAST_REPETITIONS if context.fast else REPETITIONS, CHAIN_REPETITIONS), Samples()
    of_part = tuple(-(-count // len(rounds.samples)) for count in counts)
    for place in (*places, None):
        if place is not None:
            place.settle(context)
            _replicate(context, place, counts, ruler, rounds.samples[place.level])
            _vectors(context, place, ruler, rounds.samples[place.level])
        memory = Place(context, region, "memory", Walk())  # anew: other places' lines are linked over its own
        _replicate(context, memory, of_part, ruler, parts)
    rounds.samples["memory"].add_mean(parts)
    _vectors(context, memory, ruler, rounds.samples["memory"])


def _replicate(context: Context, place: Place, counts: tuple[int, ...], ruler: Ruler, found: Samples) -> None:
    """Measure one level once on the lines of `place`, with so many repetitions of single loads and of chains at most,
    and add to `found`."""
    _singles(context, place, counts[0], ruler, found)
    if place.level == "l1":
        own_step = _long_chase(context, place, step_ticks(context)) * ruler.cycles_per_tick
        every_step, excess = own_step, 0.0
    else:
        chained = _chains(context, place, counts[1], ruler, found)
        found.chained.append(chained)
        every_step = all_steps(chained)
        alone = steps_alone([chained], step_ticks(context))
        own_step, excess = (alone.cycles[0], alone.excess) if alone else (every_step, 0.0)
    found.chain.append(own_step)
    found.all_chains.append(every_step)
    found.excess.append(excess)


def _vectors(context: Context, place: Place, ruler: Ruler, found: Samples) -> None:
    """What vector loads take longer, in the first few rounds."""
    if len(found.chain) > (WALKED_VECTOR_ROUNDS if place.steps else VECTOR_ROUNDS):
        return
    step = step_ticks(context)
    for size in (size for size in context.machine.facts.access_sizes if size > 8):
        found.longer.setdefault(size, []).append(_fenced_longer(context, place, size) * ruler.cycles_per_tick)
        if place.level == "l1":
            longer = _long_chase(context, place, step, size) - _long_chase(context, place, step)
            found.chase_longer.setdefault(size, []).append(longer * ruler.cycles_per_tick)


def _singles(context: Context, place: Place, repetitions: int, ruler: Ruler, found: Samples) -> None:
    step = step_ticks(context)
    wanted = repetitions * (REPEATED_SHIFTS if place.repeated else 1)
    timed = place.time_singles(context, place.repetitions(wanted))
    if place.repeated:
        place.prefer(context, timed)
    found.raw = timed.loads
    alike = timed.alike_ticks(step)
    everything = dominant(timed.loads, step, alike)
    own = everything
    if place.repeated:
        fast = timed.fastest(step)
        own = np.zeros_like(fast)
        own[fast] = dominant(timed.loads[fast], step, alike)
        found.share.append(float(own.sum() / fast.sum()))
        found.lines = len(np.unique(timed.line[fast]))  # a line that was lost once mostly is so again
    else:
        found.share.append(float(own.mean()))
        found.lines = len(own)
    fine = step * ruler.cycles_per_tick < FINE_STEP_CYCLES
    excess_ticks2 = timed.excess_ticks2(own, step) if fine else 0.0
    found.single_excess_cycles2.append(excess_ticks2 * ruler.cycles_per_tick**2)
    found.first_ticks = mean_ticks(timed.loads[own], step)
    for loads, told in ((timed.loads[own], found.single), (timed.loads, found.all_singles)):
        told.append(single_cycles(loads, timed.additions, step, ruler.cycles_per_tick))


def _chains(context: Context, place: Place, repetitions: int, ruler: Ruler, found: Samples) -> Chained:
    """Time chains of all lengths behind the single loads that `found` ends with."""
    wanted = repetitions * (REPEATED_SHIFTS if place.repeated else 1)
    count = place.repetitions(wanted) * (1 if place.long or place.repeated else 2)
    return Chained(
        place.time_chains(context, count),
        ruler.cycles_per_tick,
        found.first_ticks,
        found.single[-1],
    )


def _fenced_longer(context: Context, place: Place, size: int) -> float:
    """Ticks that a vector load takes longer than an 8-byte load, from fenced loads of both sizes in turn."""
    step = step_ticks(context)
    probe, loads = place.fenced((8, size, size, 8))
    placements = place.placements(place.repetitions(FENCED_REPETITIONS) + place.warmup)
    ticks = context.machine.run(probe, placements, cpu=context.cpu, warmup=place.warmup)
    return (mean_ticks(ticks[:, 1:3].ravel(), step) - mean_ticks(ticks[:, [0, 3]].ravel(), step)) / loads


def _long_chase(context: Context, place: Place, step: float, size: int = 8) -> float:
    """Ticks per step of a chase that goes round and round in L1, where there is no need to keep it short."""
    means = [
        mean_ticks(
            context.machine.run(probe, place.placements(34), cpu=context.cpu, warmup=2).ravel(),
            step,
        )
        for probe in (Probe().start().chase(WALK, steps, size).stop() for steps in LONG_CHASE)
    ]
    return (means[1] - means[0]) / (LONG_CHASE[1] - LONG_CHASE[0])


def _transfer_cycles(context: Context, ruler: Ruler) -> float:
    """Cycles of a round trip from an integer to a vector register and back."""
    short, long = (
        mean_ticks(context.machine.run(Probe().start().transfer(n).stop(), 100, cpu=context.cpu, warmup=4).ravel())
        for n in (50, 250)
    )
    return (long - short) * ruler.cycles_per_tick / 200


# -- findings ------------------------------------------------------------------------------------


def _latency_findings(context: Context, rounds: Rounds) -> Iterable[Finding]:
    yield from _clock_findings(context, rounds)
    per_tick = over_replicates([rounds.rulers[n].cycles_per_tick for n in rounds.calm()])
    context.evidence["cycles"] = {
        "cycles_per_ns": per_tick.value * context.machine.facts.ticks_per_second / 1e9,
    }
    found = context.calibration.levels or Levels(walks={}, cycles={})
    if found.unclear:
        yield Finding(
            parameter=f"latency.{found.unclear}",
            unit="cycles",
            outcome=Outcome.UNRESOLVED,
            reason="the sweep has no plateau for it, but room for one; run again at a quieter time or with more memory",
            method="working-set sweep",
        )
    context.evidence["single_load_ticks"] = {name: histogram(own.raw) for name, own in rounds.samples.items()}
    calm_transfers = [rounds.transfers[n] for n in rounds.calm()]
    yield from findings(rounds.calm_samples(), calm_transfers, found.hidden_cycles, found.searched_cycles)


def plot(document: dict[str, Any]) -> Any:
    """The working-set sweep with the levels' ends."""
    from setebench.report.plot import sweep_figure  # matplotlib is only loaded for a plot

    return sweep_figure(document)


SCENARIO = Scenario(
    name="latency",
    summary="cycles per load from each level of the memory hierarchy, two ways side by side",
    answer=answer,
    parameters=("clock.", "latency.l", "latency.memory"),
    plot=plot,
    order=10,
    seconds=6.0,
)
