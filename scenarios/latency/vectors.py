"""How long a vector load takes until its value can be used: as an 8-byte load, and longer within two bounds."""

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
"""Lines of a chase that any first cache holds, its loads, and paired samples of each size in a round."""

Surplus = dict[int, float]
"""Cycles that a step of a chase takes longer than one of 8 bytes, by the size of its loads in bytes."""


def vectors_once(context: Context, region: Region) -> Surplus:
    """Measure in one round how much longer vector loads from L1 take than 8-byte loads, by width."""
    lines = region.address + TLB_PAGE_BYTES + np.arange(LINES) * region.line_size
    context.machine.link(region, lines)
    surplus = {}
    for size in (each for each in context.machine.facts.access_sizes if each > 8):
        narrow, wide = (Probe().chase(LINE, STEPS, width) for width in (8, size))
        # the wide loads once before the first reference: they may change the core's clock
        probe = wide.paired(reference(context).work, narrow, wide)
        found = run_paired(context, probe, {LINE: np.full(SAMPLES, lines[0])}, accesses=STEPS, warmup=0)
        surplus[size] = (located(found, 1) - located(found, 0)) / STEPS
    return surplus


def vector_findings(name: str, agreed: Finding, rounds: Sequence[Surplus]) -> Iterator[Finding]:
    """Vector load to use in a vector register, of a level whose 8-byte latency is given.

    A step of a vector chase has all of that and a transfer back to an integer register, a cycle at least. The way from
    the load unit into a vector register can't be timed apart from the way back, so the chase's surplus less that cycle
    bounds it from above, and the 8-byte load from below."""
    for size in sorted(rounds[0]):
        parameter = f"latency.{name}.vector{size}"
        if agreed.outcome is not Outcome.MEASURED:
            why = "the 8-byte latency that it is compared with is no value"
            yield decide.unresolved(parameter, "cycles", why, METHOD)
            continue
        most = max(quantile_of_rounds([each[size] - 1.0 for each in rounds], MIDDLE).high, 0.0)
        low, why = agreed.low or 0.0, f"as 8-byte loads, and 0 to {most:.3g} cycles"
        yield decide.within(decide.at_least(parameter, low, "cycles", why, METHOD), low, (agreed.high or 0.0) + most)
