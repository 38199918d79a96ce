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
from numpy.typing import NDArray

from setebench.calibrate import Ruler, measure_ruler, overheads, step_ticks
from setebench.infer.latency import RUN_TO_RUN, Samples, findings, narrow
from setebench.infer.ticks import dominant, histogram, mean_ticks, over_replicates, over_rounds
from setebench.machine import Region
from setebench.placing import CHAINS, LONG_CHAIN, SHORT_CHAIN, WALK, Place, single_cycles
from setebench.probe import Probe
from setebench.results import Finding, Outcome
from setebench.scenario import Context, Scenario
from setebench.sweep import find_levels, working_memory

CHAIN_REPETITIONS = 16

LONG_CHASE = (512, 2560)
"""Steps of the two chases in L1 whose difference is timed."""

VECTOR_ROUNDS = 4
"""Rounds in which vector loads are measured too; their difference to the 8-byte load hardly drifts."""


CALM_RATIO, LEAST_CALM = 1.02, 4
"""A round counts where a cycle took no more ticks than this times the first quartile of all rounds."""


class _Rounds:
    """What all rounds gave so far. A round measures every level once, so that drift falls on all of them alike."""

    def __init__(self, levels: Iterable[str]) -> None:
        self.samples = {name: Samples() for name in levels}
        self.rulers: list[Ruler] = []
        self.overheads: list[dict[str, float]] = []
        self.transfers: list[float] = []

    @property
    def count(self) -> int:
        """Rounds done."""
        return len(self.rulers)

    def calm(self) -> NDArray[np.int64]:
        """Numbers of the rounds in which the core ran as fast as it can. In the others somebody else was on it, and
        whatever slowed the additions slowed the loads too, but not alike."""
        ticks_per_cycle = np.array([1.0 / ruler.cycles_per_tick for ruler in self.rulers])
        best = np.quantile(ticks_per_cycle, 0.25)
        calm = np.flatnonzero(ticks_per_cycle <= CALM_RATIO * best)
        return calm if len(calm) >= LEAST_CALM else np.argsort(ticks_per_cycle)[:LEAST_CALM]

    def calm_samples(self) -> dict[str, Samples]:
        """The samples of calm rounds."""
        calm = self.calm()
        return {name: own.of(calm) for name, own in self.samples.items()}

    def settled(self) -> bool:
        """Whether more rounds would hardly narrow what is told."""
        return all(
            narrow(over_replicates(own.chain[8]), 0.01, 0.08) and narrow(over_replicates(own.single), 0.03, 0.4)
            for own in self.calm_samples().values()
        )


def answer(context: Context) -> Iterator[Finding]:
    """Yield the clock's findings, then those of every level."""
    effort = 0.4 if context.fast else 1.0
    context.progress("clock")
    step_ticks(context)
    region = working_memory(context)
    try:
        context.progress("working-set sweep")
        levels = find_levels(context, region)
        rounds = _Rounds(levels)
        least, most = (6, 16) if context.fast else (12, 64)
        while rounds.count < least or (rounds.count < most and not rounds.settled()):
            context.progress(f"latency, round {rounds.count + 1} of at most {most}")
            ruler = measure_ruler(context, int(1000 * effort))
            rounds.rulers.append(ruler)
            rounds.overheads.append(overheads(context, int(300 * effort)))
            rounds.transfers.append(_transfer_cycles(context, ruler))
            for name, size in levels.items():
                _replicate(context, region, name, size, ruler, 10 if context.fast else 16, rounds.samples[name])
    finally:
        context.machine.release(region)
    yield from _latency_findings(context, rounds)


# -- the clock -----------------------------------------------------------------------------------


def _clock_findings(context: Context, rounds: _Rounds) -> Iterator[Finding]:
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
        f"clock.overhead.{bracket}": ("ticks", over_rounds([rounds.overheads[n][bracket] for n in calm], RUN_TO_RUN))
        for bracket in context.machine.facts.brackets
    }
    told["clock.cycles_per_tick"] = (
        "cycles/tick",
        over_rounds([rounds.rulers[n].cycles_per_tick for n in calm], 0.001),
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


def _replicate(
    context: Context, region: Region, level: str, size: float, ruler: Ruler, repetitions: int, found: Samples
) -> None:
    """Measure one level once, on lines of a new layout, and add to `found`."""
    place = Place(context, region, level, size)
    step = step_ticks(context)
    # sizes beyond the first only need a few rounds: what matters is how they differ from it
    sizes = context.machine.facts.access_sizes if len(found.chain.get(8, ())) < VECTOR_ROUNDS else (8,)
    repetitions = place.repetitions(repetitions)
    placements = place.placements(repetitions + 1)
    single = context.machine.run(place.singles(8), placements, cpu=context.cpu, warmup=1)
    found.raw = single[:, ::2].ravel()
    own = dominant(found.raw, step)
    found.share.append(float(own.mean()))
    for loads, told in ((found.raw[own], found.single), (found.raw, found.all_singles)):
        told.append(single_cycles(loads, single[:, 1::2].ravel(), step, ruler.cycles_per_tick))
    for each in sizes:
        if level == "l1":
            own_step = all_steps = _long_chase(context, place, each, step)
            excess = 0.0
        else:
            own_step, all_steps, excess = _chains(context, place, each, step)
        found.chain.setdefault(each, []).append(own_step * ruler.cycles_per_tick)
        if each == 8:
            found.all_chains.append(all_steps * ruler.cycles_per_tick)
            found.excess.append(excess * ruler.cycles_per_tick**2)


def _chains(context: Context, place: Place, size: int, step: float) -> tuple[float, float, float]:
    """Ticks per step of a chain, from the difference of long and short ones: of the largest group of each, and of all;
    and how much more the long ones of the largest group vary, in ticks squared per step."""
    count = 2 * place.repetitions(CHAIN_REPETITIONS)
    ticks = context.machine.run(place.chains(size), place.placements(count + 1), cpu=context.cpu, warmup=1)
    lengths = np.array(CHAINS)
    short, long = (ticks[:, lengths == steps].ravel() for steps in (SHORT_CHAIN, LONG_CHAIN))
    own_short, own_long = short[dominant(short, step)], long[dominant(long, step)]
    more = LONG_CHAIN - SHORT_CHAIN
    own = (mean_ticks(own_long, step) - mean_ticks(own_short, step)) / more
    everything = (mean_ticks(long, step) - mean_ticks(short, step)) / more
    return own, everything, float(own_long.var() - own_short.var()) / more


def _long_chase(context: Context, place: Place, size: int, step: float) -> float:
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


def _latency_findings(context: Context, rounds: _Rounds) -> Iterable[Finding]:
    yield from _clock_findings(context, rounds)
    per_tick = over_replicates([rounds.rulers[n].cycles_per_tick for n in rounds.calm()])
    context.evidence["cycles"] = {
        "cycles_per_ns": per_tick.value * context.machine.facts.ticks_per_second / 1e9,
    }
    if "unclear_level" in context.known:
        yield Finding(
            parameter=f"latency.{context.known['unclear_level']}",
            unit="cycles",
            outcome=Outcome.UNRESOLVED,
            reason="the sweep has no plateau for it, but room for one; run again at a quieter time or with more memory",
            method="working-set sweep",
        )
    context.evidence["single_load_ticks"] = {name: histogram(own.raw) for name, own in rounds.samples.items()}
    calm_transfers = [rounds.transfers[n] for n in rounds.calm()]
    yield from findings(rounds.calm_samples(), calm_transfers, context.known["hidden_cycles"])


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
