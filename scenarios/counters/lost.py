"""What a line takes that the first level lost, and the next one still has, before any size is known.

Other lines of the same place in their pages meet a line in the set of the first level, and in few sets of a larger one:
some dozens of them drive it out of the first level alone, whatever that replaces. A chase over a working set can't say
this: where some of it stays in the first level, its steps are a mixture, which may look like a level of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import step_ticks
from setebench.machine import Region
from setebench.probe import Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

from .params import Params
from .workloads import ARRAY, PAGE_BYTES, TARGET

Numbers = NDArray[np.float64]


def lost_bytes(params: Params) -> int:
    """Memory that this takes."""
    return (params.evicted_lines + max(params.congruent_lines)) * PAGE_BYTES


def lost_ticks(context: Context, region: Region, params: Params) -> float:
    """Ticks of a step over lines that were flushed, loaded, and driven out of the first level, by no more other lines
    than drive most of them out: more would drive them out of a small second level too. The median of the lines, as some
    share their set there with too many."""
    for others in params.congruent_lines:
        step, more = _driven_out(context, region, others, params)
        out = more >= (params.beyond_first - 1) * step
        if out.mean() >= params.mostly:
            return step + float(np.median(more[out]))
    return step + float(np.median(more))


def _driven_out(context: Context, region: Region, others: int, params: Params) -> tuple[float, Numbers]:
    """Ticks of a step that the first level serves, and by how much more each of the lines takes, shape (lines,)."""
    line, count = region.line_size, params.evicted_lines
    rng = context.rng(41)
    apart = PAGE_BYTES // line // (count + 1)
    at = (1 + rng.permutation(count)) * apart * line  # none begins a page: that line is flushed for its translation
    order = rng.permutation(np.arange(count) * PAGE_BYTES + at)
    context.machine.link(region, region.address + order)
    evictors = rng.permutation(((count + np.arange(others)) * PAGE_BYTES + at[:, None]).ravel())
    away, driving, timed = Probe(), Probe(), Probe()
    for offset in order.tolist():
        away = away.flush(ARRAY + offset)
    for offset in evictors.tolist():
        driving = driving.load(ARRAY + offset)
    for number, offset in enumerate([*order.tolist(), *order.tolist()]):
        timed = timed.start(number).load(ARRAY + offset).stop(number)
    for number, steps in ((2 * count, count), (2 * count + 1, 3 * count)):
        timed = timed.start(number).chase(TARGET, steps).stop(number)
    # a flush translates its address: the pages' entries are in the TLB without any line of them being used
    warmed = Probe().fence().repeat(count, Probe().flush(ARRAY), advance=PAGE_BYTES).fence()
    probe = away.fence().chase(TARGET, count).fence().repeat(params.congruent_times, driving) + warmed + timed
    placements = {
        ARRAY: np.full(params.congruent_rounds, region.address),
        TARGET: np.full(params.congruent_rounds, region.address + int(order[0])),
    }
    ticks = context.machine.run(probe, placements, cpu=context.cpu, warmup=2)
    means = np.array([mean_ticks(each, step_ticks(context)) for each in ticks.T])
    first, again, (short, long) = np.split(means, (count, 2 * count))
    return float(long - short) / (2 * count), first - again
