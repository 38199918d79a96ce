"""Run paired probes (questions timed between two references of known cycles), in rounds that lie apart in time."""

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
    """Number of rounds of a measurement, and their distance in time."""

    rounds: int = 6  # independent rounds; fewer give no quantile of quiet rounds, more cost time
    apart_seconds: float = 0.5  # least time between the starts of two rounds; other load comes in shorter bursts


def run_paired(context: Context, probe: Probe, placements: Placements, *, accesses: int = 1, warmup: int = 2) -> Paired:
    """Run a paired probe as `Machine.run` does, on the measured CPU; `accesses` are those of its longest question."""
    ticks = context.machine.run(probe, placements, cpu=context.cpu, warmup=warmup)
    return paired(context, ticks, accesses)


def paired(context: Context, ticks: NDArray[np.int64], accesses: int) -> Paired:
    """Bundle `ticks`, shape (samples, intervals), of a probe whose timed parts lie between two references, with the
    clock's step and the reference's cycles. `accesses` is the number of memory accesses in its longest timed part."""
    step, cycles = step_ticks(context), reference(context).cycles
    return Paired(ticks=ticks, step_ticks=step, reference_cycles=cycles, accesses=accesses)


def rounds(context: Context, params: RoundsParams | None = None) -> Iterator[int]:
    """Yield the numbers of rounds, each at least `apart_seconds` after the last; keep their duration as evidence."""
    params = params or RoundsParams()
    begin, given = time.monotonic(), 0
    try:
        for number in range(params.rounds):
            time.sleep(max(0.0, begin + number * params.apart_seconds - time.monotonic()))
            given = number + 1
            yield number
    finally:  # also if the caller stops after fewer rounds
        context.evidence["rounds"] = {"rounds": given, "seconds": round(time.monotonic() - begin, 2)}
