"""Calibrate for all scenarios and machines: the clock's step and overhead, reference work, and cycles per tick."""

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
    """Tunables of the calibrations."""

    additions: int = 1000  # dependent additions in a loop body; the code must fit the first instruction cache
    rounds: tuple[int, int] = (4, 40)  # iterations of a short and a long loop; their difference is exact to 0.1 %
    chains: int = 6  # runs of each loop; the fastest is used, as some are interrupted
    reference_rounds: tuple[int, int] = (100, 10)  # multiplications in a loop, its iterations; more code fills caches
    pairs: int = 64  # samples of multiplications between additions
    low: float = 0.16  # quantile of these samples that is used, as co-runners delay some
    whole: float = 0.12  # relative distance up to which cycles of a multiplication are rounded to a whole number


PARAMS = Params()


def step_ticks(context: Context) -> float:
    """Return the step of the clock's readings, in ticks; it is measured once per run."""
    if context.calibration.step_ticks is None:
        waits = [Probe().start().wait(1 + n * n).stop() for n in range(48)]
        ticks = run_interleaved(context.machine, waits, 40, context.rng(1), cpu=context.cpu, block=40)
        step = clock_step(np.concatenate([each.ravel() for each in ticks]))
        context.calibration = replace(context.calibration, step_ticks=step)
        return step
    return context.calibration.step_ticks


def reference(context: Context) -> Reference:
    """Return the reference work of paired probes, dependent multiplications, with its duration in core cycles, which is
    measured once per run by comparison with dependent additions of one cycle each. Multiplications take several cycles,
    so an SMT co-runner that occupies their port in some cycles delays them less than additions. If a multiplication
    takes no longer than an addition, additions are the reference."""
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
    """Return the mean ticks of an empty interval, from `samples` readings, for each of the machine's brackets (the
    instruction sequences that read the clock at start and stop), by name."""
    step = step_ticks(context)
    found = {}
    for bracket in context.machine.facts.brackets:
        empty = Probe().start(bracket=bracket).stop(bracket=bracket)
        ticks = context.machine.run(empty, samples, cpu=context.cpu, warmup=min(8, samples // 4)).ravel()
        found[bracket] = mean_ticks(ticks, step)
    return found


def cycles_per_tick(context: Context) -> float:
    """Return the core's current cycles per tick, from additions in a short and a long loop, which take 100 µs."""
    body, (few, many) = Probe().add(PARAMS.additions), PARAMS.rounds
    short, long = (
        float(np.min(context.machine.run(Probe().start().repeat(rounds, body).stop(), PARAMS.chains, cpu=context.cpu)))
        for rounds in PARAMS.rounds
    )
    return PARAMS.additions * (many - few) / max(long - short, 1.0)


LINE = Base("line")
