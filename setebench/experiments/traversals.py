"""Lines in use beside a stream, and how long single loads of them take.

The stream goes through all lines of its pages but the last, so that what prefetchers bring are lines that are used
anyway. The last line of a page is flushed before one of its lines is timed, which warms the translation and takes
nothing away.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import cycles_per_tick, step_ticks
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.experiments.lines.placing import BASELINE_ADDITIONS
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

Lines = NDArray[np.int64]


@cache
def _loads(pages: int, lines: int, line: int) -> Probe:
    """Loads of so many lines of each of some pages, all mixed."""
    probe, bases = Probe(), [Base(f"page_{each}") for each in range(pages)]
    for number in np.random.default_rng(pages).permutation(pages * lines).tolist():
        page, at = divmod(number, lines)
        probe = probe.load(bases[page] + at * line)
    return probe.fence()


def _timed(probe: Probe, number: int, spare: Base, target: Base | None = None) -> Probe:
    """`probe`, then a load of the target, or additions without one, the page's translation being warm."""
    probe = probe.flush(spare + 0).fence().start(number)
    return (probe.load(target) if target else probe.add(BASELINE_ADDITIONS)).stop(number)


def _cycles(context: Context, loads: Lines, additions: Lines) -> NDArray[np.float64]:
    """Of single loads, by the additions beside them (ticks)."""
    base = mean_ticks(additions.ravel(), step_ticks(context))
    cycles: NDArray[np.float64] = (loads.astype(np.float64) - base) * cycles_per_tick(context)
    return cycles + BASELINE_ADDITIONS


HOT_ADDITIONS = 8
"""Additions in one repetition that loads of lines in use are compared with."""


def lines_in_use(context: Context, region: Region, hot: Lines, stream: Lines, touches: int) -> NDArray[np.float64]:
    """Cycles of loads of some lines after every so many whole pages of a stream that goes round and round (their
    addresses, shape (parts, pages of each)), shape (touches, lines)."""
    line = context.machine.facts.line_size
    targets, spares = ([Base(f"{name}_{number}") for number in range(len(hot))] for name in ("hot", "spare"))
    probe = _loads(stream.shape[1], TLB_PAGE_BYTES // line - 1, line)
    for number, (target, spare) in enumerate(zip(targets, spares, strict=True)):
        probe = _timed(probe, number, spare, target)
    for number in range(len(hot), len(hot) + HOT_ADDITIONS):
        probe = _timed(probe, number, spares[0])
    around = stream[np.arange(touches) % len(stream)]
    places = {Base(f"page_{number}"): around[:, number] for number in range(stream.shape[1])}
    for number, at in enumerate(hot.tolist()):
        last = at - at % TLB_PAGE_BYTES + TLB_PAGE_BYTES - line
        places |= {targets[number]: np.full(touches, at), spares[number]: np.full(touches, last)}
    ticks = context.machine.run(probe, places, cpu=context.cpu)
    return _cycles(context, ticks[:, : len(hot)], ticks[:, len(hot) : len(hot) + HOT_ADDITIONS])
