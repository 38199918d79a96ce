"""What a line takes that the first level lost, and the next one still has, before any size is known.

Other lines of the same place in their pages meet a line in the set of the first level, and in few sets of a larger one:
some dozens of them drive it out of the first level alone, whatever that replaces. A chase over a working set can't say
this: where some of it stays in the first level, its steps are a mixture, which may look like a level of its own.
"""

from __future__ import annotations

import numpy as np

from setebench.experiments.calibrate import step_ticks
from setebench.machine import Region
from setebench.probe import Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

from .params import Params
from .workloads import ARRAY, PAGE_BYTES, TARGET


def lost_bytes(params: Params) -> int:
    """Memory that this takes."""
    return (params.evicted_lines + params.congruent_lines) * PAGE_BYTES


def lost_ticks(context: Context, region: Region, params: Params) -> float:
    """Ticks of a step over lines that were flushed, loaded, and driven out of the first level."""
    line, count, others = region.line_size, params.evicted_lines, params.congruent_lines
    rng = context.rng(41)
    apart = PAGE_BYTES // line // (count + 1)
    at = (1 + rng.permutation(count)) * apart * line  # none begins a page: that line is flushed for its translation
    lines = np.arange(count) * PAGE_BYTES + at
    order = rng.permutation(lines)
    context.machine.link(region, region.address + order)
    evictors = rng.permutation(((count + np.arange(others)) * PAGE_BYTES + at[:, None]).ravel())
    ready = Probe()
    for offset in lines.tolist():
        ready = ready.flush(ARRAY + offset)
    ready = ready.fence().chase(TARGET, count).fence()
    for offset in evictors.tolist():
        ready = ready.load(ARRAY + offset)
    # a flush translates its address: the pages' entries are in the TLB without any line of them being used
    ready = ready.fence().repeat(count, Probe().flush(ARRAY), advance=PAGE_BYTES).fence()
    for number, steps in enumerate((count, count, 3 * count)):
        ready = ready.start(number).chase(TARGET, steps).stop(number)
    placements = {
        ARRAY: np.full(params.congruent_rounds, region.address),
        TARGET: np.full(params.congruent_rounds, region.address + int(order[0])),
    }
    ticks = context.machine.run(ready, placements, cpu=context.cpu, warmup=2)
    first, again, longer = (mean_ticks(ticks[:, number], step_ticks(context)) for number in range(3))
    return (first - again) / count + (longer - again) / (2 * count)
