"""How near prefetchers bring the lines of an ascending chase: its next line is timed before anything has asked for it.

How fast such a chase is can't say this: one whose lines come from the second level in time is faster than any other
chase, and yet no prefetched line went into the first one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import step_ticks
from setebench.machine import Region
from setebench.probe import Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

from .levels import Levels
from .params import Params
from .workloads import ARRAY, PAGE_BYTES


def prefetched_traffic(context: Context, region: Region, levels: Levels, params: Params) -> frozenset[str]:
    """The levels whose traffic holds lines that prefetchers bring for an ascending chase. The region's lines must be
    linked upwards."""
    # from the middle of the second page on: what remembers an earlier chase over it takes its time to follow this one
    middle = 3 * PAGE_BYTES // region.line_size // 2
    ticks = [_next_ticks(context, region, middle + at, params) for at in range(params.next_lines)]
    next_ticks = levels.near_ticks + float(np.quantile(ticks, params.next_fraction))
    within = {
        "l2": (levels.near_ticks + levels.lost_ticks) / 2,
        "l3": params.slower * levels.lost_ticks,
        "memory": params.before_memory * levels.memory_ticks,
    }
    return frozenset(level for level, most in within.items() if next_ticks < most)


def _next_ticks(context: Context, region: Region, steps: int, params: Params) -> float:
    """Ticks that the line behind a chase of so many steps takes, over those that it takes the next time."""
    line = region.line_size
    away = Probe().repeat(2 * PAGE_BYTES // line, Probe().flush(ARRAY), advance=line).fence()
    # waited for, as a prefetch that is on its way is in no level yet
    probe = away.chase(ARRAY, steps).fence().wait(params.settle_cycles).fence()
    for number in (0, 1):
        probe = probe.start(number).load(ARRAY + steps * line).stop(number)
    pages = region.address + np.arange(0, region.size - PAGE_BYTES, PAGE_BYTES)
    placed: NDArray[np.int64] = np.resize(context.rng(steps).permutation(pages), params.repetitions)
    ticks = context.machine.run(probe, {ARRAY: placed}, cpu=context.cpu, warmup=2)
    first, again = (mean_ticks(ticks[:, number], step_ticks(context)) for number in (0, 1))
    return first - again
