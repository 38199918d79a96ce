"""Measure the latency of small caches (L1, L2) exactly, by dense pointer chases: cyclic, random, over few pages.

The size sweep (`size_sweep`) avoids prefetching and TLB misses, but uses each line only once in 100 microseconds or
more. An SMT co-runner evicts most lines in between, so a level of 14 cycles appears to take 14 to 40. A dense chase
uses each line again much sooner. So the sweep gives the levels and bounds of latencies, and dense chases the latencies.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from setebench.calibration import Levels
from setebench.experiments.calibrate import reference
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.experiments.paired import run_paired
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.pairs import located
from setebench.stats.rounds import low_of_samples

LINE = Base("line")


@dataclass(frozen=True, kw_only=True)
class NearParams:
    """Tunables of the dense chases. A pass is a chase of one level's working set with `samples` samples."""

    lines_apart: int = 5  # only every fifth line of a page is used, so that prefetches of the next four don't help
    first: float = 0.0625  # size of level 1's working set over level 1's capacity
    outgrows: float = 0.6  # the same for other levels, over the capacity before them, of whose sets it uses 1/5
    inside: float = 0.16  # largest size of a working set over the level's own capacity, as co-runners take room
    most_pages: int = 56  # most pages of a working set: more may outgrow a first TLB
    steps: int = 256  # loads of a sample, as few as the bracket's bias allows: longer samples are disturbed more often
    samples: int = 96  # paired samples of a pass
    passes: tuple[int, int] = (6, 4)  # rounds, and passes of each level in a round, some of which are undisturbed
    apart_seconds: float = 0.08  # wait between two rounds, about the length of a co-runner's time slice
    settle: int = 3  # traversals of the working set before a pass
    bias_cycles: float = 3.0  # systematic error of a sample in cycles, from the bracket
    alone: float = 1.02  # passes count if level 1 took at most so many times the sweep's latency at the same time
    above: float = 1.15  # most ratio to the upper end of the sweep's interval, as prefetches shorten only the sweep's


def sharpened(context: Context, region: Region, levels: Levels) -> Levels:
    """Return `levels` with better latencies of small caches: those of dense chases (in random order over few pages of
    `region`), where they agree with the size sweep and their intervals are narrower."""
    params, before, wanted = NearParams(), 0.0, {}
    for name in levels.caches:
        end = levels.ends_bytes.get(name, 0.0)
        size = min(params.outgrows * before if before else params.first * end, params.inside * end)
        if 0 < size <= params.most_pages * TLB_PAGE_BYTES / params.lines_apart:
            wanted[name] = size
        before = end
    times, passes = params.passes
    found: dict[str, list[float]] = {name: [] for name in wanted}
    for number in range(times):
        time.sleep(params.apart_seconds if number and wanted else 0.0)
        context.progress(f"dense chases, time {number + 1}")
        for name, size in [*wanted.items()] * passes:
            found[name].append(chased(context, region, size))
    context.evidence["dense_cycles"] = {name: np.round(cycles, 3).tolist() for name, cycles in found.items()}
    first = levels.caches[0]
    # If a co-runner is there all the time, all passes over level 1 take longer than in the sweep, and none count.
    quiet = np.array(found.get(first, ())) <= params.alone * levels.latency[first].value
    for name, cycles in found.items() if quiet.any() else ():
        levels = _with_latency(levels, name, np.array(cycles)[quiet])
    return levels


def chased(context: Context, region: Region, size_bytes: float) -> float:
    """Return the core cycles of a load in a cyclic pointer chase, in random order, over about `size_bytes` bytes of
    lines in neighbouring pages; NaN if too few samples are undisturbed."""
    params, line = NearParams(), region.line_size
    each = TLB_PAGE_BYTES // (params.lines_apart * line)
    count = max(int(size_bytes / line), 2)
    pages = -(-count // each)
    free = region.size // TLB_PAGE_BYTES - pages + 1
    begin = region.address + int(context.fresh_rng().integers(free)) * TLB_PAGE_BYTES
    number = np.arange(count)
    lines = begin + number // each * TLB_PAGE_BYTES + number % each * params.lines_apart * line
    lines = context.fresh_rng().permutation(lines)
    context.machine.link(region, lines)
    warmup = -(-params.settle * count // params.steps)
    begins = lines[np.arange(params.samples + warmup) * params.steps % count]
    probe = Probe().paired(reference(context).work, Probe().chase(LINE, params.steps))
    return located(run_paired(context, probe, {LINE: begins}, accesses=params.steps, warmup=warmup)) / params.steps


def _with_latency(levels: Levels, name: str, cycles: NDArray[np.float64]) -> Levels:
    """Return `levels` with the latency of level `name` taken from passes of `cycles` a load, shape (passes,), unless
    this contradicts the size sweep or the sweep's interval is narrower."""
    params, sweep = NearParams(), levels.latency[name]
    found = low_of_samples(cycles, params.bias_cycles / params.steps)
    # Nothing makes a load from level 1 too fast, so a chase faster than the sweep is right there.
    low = 0.0 if name == levels.caches[0] else sweep.low
    if not low <= found.value <= params.above * sweep.high or found.high - found.low >= sweep.high - sweep.low:
        return levels
    nanoseconds = found.scaled(levels.ns[name].value / sweep.value)
    return replace(
        levels,
        cycles=levels.cycles | {name: found.value},
        latency=levels.latency | {name: found},
        ns=levels.ns | {name: nanoseconds},
    )
