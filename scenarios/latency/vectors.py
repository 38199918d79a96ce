"""Load-to-use latency of vector loads: bounded below by that of 8-byte loads, above by chases of vector loads in L1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from setebench.experiments.calibrate import reference
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.experiments.paired import run_paired
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.results import Finding, Outcome
from setebench.scenario import Context
from setebench.stats import decide
from setebench.stats.pairs import located
from setebench.stats.rounds import MIDDLE, quantile_of_rounds

LINE = Base("line")
METHOD = "8-byte latency, plus what chased vector loads take longer in L1 at most"
LINES, STEPS, SAMPLES = 8, 512, 24
"""Lines of a chase (any first cache holds them), loads of a chase, and paired samples per access size and round."""

Surplus = dict[int, float]
"""Cycles by which a vector load of a chase in L1 exceeds an 8-byte load, by access size in bytes, in one round."""


def vectors_once(context: Context, region: Region) -> Surplus:
    """Measure in one round, in `region`, how many cycles longer vector loads from L1 take than 8-byte loads."""
    lines = region.address + TLB_PAGE_BYTES + np.arange(LINES) * region.line_size
    context.machine.link(region, lines)
    surplus = {}
    for size in (each for each in context.machine.facts.access_sizes if each > 8):
        narrow, wide = (Probe().chase(LINE, STEPS, width) for width in (8, size))
        # wide loads run once before the first reference, as they may change the core's clock
        probe = wide.paired(reference(context).work, narrow, wide)
        found = run_paired(context, probe, {LINE: np.full(SAMPLES, lines[0])}, accesses=STEPS, warmup=0)
        surplus[size] = (located(found, 1) - located(found, 0)) / STEPS
    return surplus


def vector_findings(name: str, agreed: Finding, rounds: Sequence[Surplus]) -> Iterator[Finding]:
    """Yield the load-to-use latency of vector loads from level `name`, whose 8-byte latency is the finding `agreed`.

    A vector chase needs one transfer more per load, from the vector register to an integer register, of at least a
    cycle, and can't be timed without it. So the latency is at least that of 8-byte loads, and exceeds it by at most
    what chases took longer in `rounds` (`vectors_once`) less one cycle."""
    for size in sorted(rounds[0]):
        parameter = f"latency.{name}.vector{size}"
        if agreed.outcome is not Outcome.MEASURED:
            why = "the 8-byte latency that it is compared with is no value"
            yield decide.unresolved(parameter, "cycles", why, METHOD)
            continue
        most = max(quantile_of_rounds([each[size] - 1.0 for each in rounds], MIDDLE).high, 0.0)
        low, why = agreed.low or 0.0, f"as 8-byte loads, and 0 to {most:.3g} cycles"
        yield decide.within(decide.at_least(parameter, low, "cycles", why, METHOD), low, (agreed.high or 0.0) + most)
