"""Running paired probes: every question has its references beside it, and rounds of questions lie apart in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import reference, step_ticks
from setebench.probe import Placements, Probe
from setebench.scenario import Context
from setebench.stats.pairs import Paired


@dataclass(frozen=True, kw_only=True)
class RoundsParams:
    """How often a question is put, and when."""

    rounds: int = 6  # independent rounds; fewer leave no quantile of quiet ones, more cost time
    apart_seconds: float = 0.5  # least time between two starts: bursts of other load are often shorter than that


def run_paired(context: Context, probe: Probe, placements: Placements, *, accesses: int = 1, warmup: int = 2) -> Paired:
    """Run a paired probe on the CPU that is measured; `accesses` is how many its longest question makes."""
    ticks = context.machine.run(probe, placements, cpu=context.cpu, warmup=warmup)
    return paired(context, ticks, accesses)


def paired(context: Context, ticks: NDArray[np.int64], accesses: int) -> Paired:
    """Ticks of a paired probe, shape (samples, intervals), with what turns them into cycles."""
    step, cycles = step_ticks(context), reference(context).cycles
    return Paired(ticks=ticks, step_ticks=step, reference_cycles=cycles, accesses=accesses)


def rounds(context: Context, params: RoundsParams | None = None) -> Iterator[int]:
    """Numbers of rounds, each given no sooner than its time has come; evidence says over how many seconds they lay."""
    params = params or RoundsParams()
    begin, given = time.monotonic(), 0
    try:
        for number in range(params.rounds):
            time.sleep(max(0.0, begin + number * params.apart_seconds - time.monotonic()))
            given = number + 1
            yield number
    finally:  # also where fewer rounds do
        context.evidence["rounds"] = {"rounds": given, "seconds": round(time.monotonic() - begin, 2)}
