"""Clock brackets compared at start: the first in an order of preference that keeps a load within its interval."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from setebench.machine import Ticks
from setebench.native.memory import SMALL_PAGE, map_region
from setebench.native.stitching import available
from setebench.probe import BRACKETS, Base, Placements, Probe

PREFERRED = ("rdtscp", "lfence", "mfence", "cpuid")
"""In the order to take them in. rdtscp waits for loads by itself; an lfence between the timed load and the clock adds
six cycles to it on some cores in some states (Zen 3, measured). cpuid may leave for a hypervisor. rdpru, which counts
cycles, not ticks, is never chosen."""
SAMPLES = 200
KEPT = 0.8
"""Of the longest load from memory that any bracket shows: one that lets the load out of its interval shows less."""

_LINE = Base("line")


def ranked(run: Callable[[Probe, Placements, int], Ticks]) -> tuple[str, ...]:
    """The brackets that this CPU has, the best first. `run` takes a probe, its placements, and how many repetitions at
    the begin to leave out."""
    names = [name for name in BRACKETS if available(f"start.{name}") and available(f"stop.{name}")]
    usual = [name for name in PREFERRED if name in names]
    compared = Probe()  # all of them in one probe, as memory's latency differs from one moment to the next
    for number, name in enumerate(usual):
        compared = compared.load(_LINE).fence().start(2 * number, bracket=name).stop(2 * number, bracket=name)
        compared = compared.flush(_LINE).fence().start(2 * number + 1, bracket=name).load(_LINE)
        compared = compared.stop(2 * number + 1, bracket=name)
    region = map_region(SMALL_PAGE, SMALL_PAGE, True)
    ticks = np.median(run(compared, {_LINE: np.full(SAMPLES, region.address)}, SAMPLES // 10), axis=0)
    misses = dict(zip(usual, (ticks[1::2] - ticks[0::2]).tolist(), strict=True))
    best = next(name for name in usual if misses[name] > KEPT * max(misses.values()))
    return (best, *(name for name in names if name != best))
