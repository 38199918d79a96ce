"""Latency of near caches by dense chases: a cyclic random order over few pages, so short that others on the
core have little time to push lines out between two uses of one.

A traversal by windows (`size_sweep`) is not fooled by prefetchers or TLBs, but comes to a line once in 100 microseconds
or more. Beside an SMT co-runner most of its lines are lost by then, and a level of 14 cycles takes 14 to 40. So the
sweep says where levels are and what they take at most and at least, and these chases what exactly.
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
    """Which lines are chased, and how often."""

    lines_apart: int = 4  # of a page every fourth one is used: next lines that a prefetcher brings are not due
    first: float = 0.0625  # of the first level's end: its own working set
    outgrows: float = 0.75  # times the end of the level before: in a quarter of its sets, so it has few of the lines
    inside: float = 0.2  # of the level's own end, at most: others take room
    most_pages: int = 56  # of a set: more outgrow a first TLB, whose misses would count
    steps: int = 256  # loads of a sample, as few as the bracket's bias allows: longer ones are disturbed more often
    samples: int = 96  # of a pass
    passes: tuple[int, int] = (6, 4)  # times, and passes at each: some are quiet
    apart_seconds: float = 0.08  # from one time to the next: a co-runner's slices are as long
    settle: int = 3  # rounds of the whole set before
    bias_cycles: float = 3.0  # of a bracket over a sample's loads
    alone: float = 1.02  # times what the sweep says of the first level: passes beside one of it that took so much count
    above: float = 1.15  # times what the sweep takes at most: some lines of its windows are prefetched, dense ones not


def sharpened(context: Context, region: Region, levels: Levels) -> Levels:
    """The levels with the latency of those caches that few pages outgrow from dense chases, where these agree with the
    sweep and say more."""
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
    # a co-runner may stay all the time: then passes over the first level take longer than the sweep saw, and none count
    quiet = np.array(found.get(first, ())) <= params.alone * levels.latency[first].value
    for name, cycles in found.items() if quiet.any() else ():
        levels = _with(levels, name, np.array(cycles)[quiet])
    return levels


def chased(context: Context, region: Region, size_bytes: float) -> float:
    """Core cycles of a load in a cyclic random order over about so many bytes of lines, in neighbouring pages; NaN of
    too few undisturbed samples."""
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


def _with(levels: Levels, name: str, cycles: NDArray[np.float64]) -> Levels:
    """The levels with another latency of one of them, unless the sweep contradicts it or is sharper."""
    params, sweep = NearParams(), levels.latency[name]
    found = low_of_samples(cycles, params.bias_cycles / params.steps)
    # nothing makes a load from the first level faster, so there no sweep contradicts a chase that took less
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
