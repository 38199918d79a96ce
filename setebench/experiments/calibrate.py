"""Calibrations that several scenarios need: the clock's step and overheads, and how many core cycles a tick is.

All of it goes through the Machine protocol, so it holds for simulated machines and for anybody's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from setebench.calibration import Reference
from setebench.machine import run_interleaved
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.ticks.clock import clock_step
from setebench.stats.ticks.location import mean_ticks


@dataclass(frozen=True, kw_only=True)
class Params:
    """What is timed to learn of the clock."""

    additions: int = 1000  # chained ones in a loop: few enough for their code to stay in the first cache
    rounds: tuple[int, int] = (4, 40)  # of that loop: the difference is exact to 0.1 % where the clock moves in steps
    chains: int = 6  # of each, of which the fastest counts: no interrupt need fall into most of them
    reference_rounds: tuple[int, int] = (100, 10)  # multiplications in a row, and times: more code takes room in caches
    pairs: int = 64  # samples of a reference beside additions; a tenth of them is enough on a quiet core
    low: float = 0.16  # quantile of them that counts, as neighbours only add to either, in some
    whole: float = 0.12  # of a cycle count: so near to a whole number it is that; an SMT co-runner delays additions


PARAMS = Params()


def step_ticks(context: Context) -> float:
    """Granularity of the clock; measured once per context."""
    if context.calibration.step_ticks is None:
        waits = [Probe().start().wait(1 + n * n).stop() for n in range(48)]
        ticks = run_interleaved(context.machine, waits, 40, context.rng(1), cpu=context.cpu, block=40)
        step = clock_step(np.concatenate([each.ravel() for each in ticks]))
        context.calibration = replace(context.calibration, step_ticks=step)
        return step
    return context.calibration.step_ticks


def reference(context: Context) -> Reference:
    """What paired probes begin and end with: multiplications, each of as many cycles as additions of one cycle show;
    measured once per context.

    An SMT co-runner takes the port that a chain needs in some cycles, which delays what takes several cycles less than
    an addition. A machine on which multiplications take no time of their own has additions."""
    if context.calibration.reference is None:
        count, rounds = PARAMS.reference_rounds
        additions = Probe().repeat(3 * rounds, Probe().add(count))
        work = Probe().repeat(rounds, Probe().multiply(count))
        ticks = context.machine.run(additions.paired(work, additions), PARAMS.pairs, cpu=context.cpu, warmup=2)
        first, empty, beside, last = np.quantile(ticks, PARAMS.low, axis=0)
        each = 3.0 * (min(first, last) - empty) / max(beside - empty, 1.0)
        each = round(each) if abs(each - round(each)) <= PARAMS.whole * each else each
        found = Reference(work, each * rounds * count) if each > 1 else Reference(additions, 3.0 * rounds * count)
        context.calibration = replace(context.calibration, reference=found)
        return found
    return context.calibration.reference


def overheads(context: Context, samples: int) -> dict[str, float]:
    """Ticks of an empty interval, now, for every bracket of the machine; `samples` of each."""
    step = step_ticks(context)
    found = {}
    for bracket in context.machine.facts.brackets:
        empty = Probe().start(bracket=bracket).stop(bracket=bracket)
        ticks = context.machine.run(empty, samples, cpu=context.cpu, warmup=min(8, samples // 4)).ravel()
        found[bracket] = mean_ticks(ticks, step)
    return found


def cycles_per_tick(context: Context) -> float:
    """Cycles per tick right now, exact on any clock, in some 100 microseconds."""
    body, (few, many) = Probe().add(PARAMS.additions), PARAMS.rounds
    short, long = (
        float(np.min(context.machine.run(Probe().start().repeat(rounds, body).stop(), PARAMS.chains, cpu=context.cpu)))
        for rounds in PARAMS.rounds
    )
    return PARAMS.additions * (many - few) / max(long - short, 1.0)


LINE = Base("line")
