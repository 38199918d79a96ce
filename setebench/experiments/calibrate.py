"""Calibrations that several scenarios need: the clock's step and overheads, and how many core cycles a tick is.

All of it goes through the Machine protocol, so it holds for simulated machines and for anybody's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from setebench.machine import run_interleaved
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.ticks.clock import clock_step
from setebench.stats.ticks.location import mean_ticks


@dataclass(frozen=True, kw_only=True)
class Params:
    """Chained additions, `short` and `long`, whose difference in ticks gives ticks per cycle: long enough that a clock
    step is nothing beside them, short enough that no interrupt need fall into most of them, and that their code stays
    in the first cache. `rounds` of `short`, in a loop, are exact to a tenth of a percent even where the clock moves in
    steps. What a bracket adds is the mean over chains of lengths in `overhead`, as short as what is timed."""

    short: int = 1000
    long: int = 5000
    rounds: tuple[int, int] = (4, 40)
    overhead: tuple[int, ...] = (2, 4, 8, 16)


PARAMS = Params()


@dataclass(frozen=True)
class TickRate:
    """How to turn an interval's mean ticks into core cycles, valid for the moment at which it was measured.

    `overhead_ticks` is what a bracket adds to a short chain of instructions. It is found with chains of additions, not
    with an empty interval: the fences of an empty one overlap, so it is shorter than what a real one pays."""

    overhead_ticks: float
    cycles_per_tick: float

    def cycles(self, ticks: float) -> float:
        """Core cycles of an interval of `ticks`."""
        return (ticks - self.overhead_ticks) * self.cycles_per_tick


def step_ticks(context: Context) -> float:
    """Granularity of the clock; measured once per context."""
    if context.calibration.step_ticks is None:
        waits = [Probe().start().wait(1 + n * n).stop() for n in range(48)]
        ticks = run_interleaved(context.machine, waits, 40, context.rng(1), cpu=context.cpu, block=40)
        step = clock_step(np.concatenate([each.ravel() for each in ticks]))
        context.calibration = replace(context.calibration, step_ticks=step)
        return step
    return context.calibration.step_ticks


def overheads(context: Context, samples: int) -> dict[str, float]:
    """Ticks of an empty interval, now, for every bracket of the machine; `samples` of each."""
    step = step_ticks(context)
    found = {}
    for bracket in context.machine.facts.brackets:
        empty = Probe().start(bracket=bracket).stop(bracket=bracket)
        ticks = context.machine.run(empty, samples, cpu=context.cpu, warmup=min(8, samples // 4)).ravel()
        found[bracket] = mean_ticks(ticks, step)
    return found


def measure_tick_rate(context: Context, samples: int) -> TickRate:
    """Ticks per cycle and overhead, now. `samples` are spent on each of the short chains."""
    step = step_ticks(context)
    rng = context.rng(2)
    chains = [Probe().start().add(n).stop() for n in (PARAMS.short, PARAMS.long)]
    short, long = run_interleaved(context.machine, chains, max(64, samples // 20), rng, cpu=context.cpu, block=16)
    ticks_per_cycle = (mean_ticks(long, step) - mean_ticks(short, step)) / (PARAMS.long - PARAMS.short)
    probes = [Probe().start().add(n).stop() for n in PARAMS.overhead]
    ticks = run_interleaved(context.machine, probes, samples // 2, rng, cpu=context.cpu)
    over = [mean_ticks(t, step) - n * ticks_per_cycle for t, n in zip(ticks, PARAMS.overhead, strict=True)]
    return TickRate(float(np.mean(over)), 1.0 / ticks_per_cycle)


def quick_cycles_per_tick(context: Context) -> float:
    """Cycles per tick right now, to a few tenths of a percent in some 50 microseconds."""
    additions = (PARAMS.short, PARAMS.long)
    return _least(context, additions, [Probe().start().add(n).stop() for n in additions], (12, 2))


def cycles_per_tick(context: Context) -> float:
    """Cycles per tick right now, exact on any clock, in some 100 microseconds."""
    body = Probe().add(PARAMS.short)
    probes = [Probe().start().repeat(rounds, body).stop() for rounds in PARAMS.rounds]
    return _least(context, [rounds * PARAMS.short for rounds in PARAMS.rounds], probes, (6, 0))


def _least(context: Context, additions: Sequence[int], chains: Sequence[Probe], runs: tuple[int, int]) -> float:
    """By the fastest of some runs (after others that don't count) of a short and a long chain of additions."""
    count, warmup = runs
    short, long = (float(np.min(context.machine.run(chain, count, cpu=context.cpu, warmup=warmup))) for chain in chains)
    return (additions[1] - additions[0]) / max(long - short, 1.0)


LINE = Base("line")
