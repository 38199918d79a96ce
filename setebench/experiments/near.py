"""Measure the latency of small caches (L1, L2) exactly, by dense pointer chases over lines that share few cache sets.

The size sweep (`size_sweep`) uses each line only once in 100 µs or more, and all lines of each page: meanwhile
an SMT co-runner evicts most lines, and prefetchers fetch some. So the sweep gives the levels and bounds of latencies,
and dense chases give the latencies. A chase for level 2 has one line in each page, at one of two offsets, so that all
lines compete for few sets of level 1, and no prefetcher fetches any (with a single offset, Zen 4 takes 17 cycles, not
14). A chase over as many lines of the same pages in the same order, but at other offsets, is served by level 1 and
misses the TLB as often: the two chases differ by the difference of both levels' latencies.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from setebench.calibration import Levels
from setebench.experiments.calibrate import reference
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.experiments.paired import run_paired
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.estimate import Interval
from setebench.stats.pairs import located
from setebench.stats.rounds import low_of_samples

FEW = Base("few")


@dataclass(frozen=True, kw_only=True)
class NearParams:
    """Tunables of the dense chases. A pass is a probe of all chases with `samples` samples."""

    few: tuple[int, int] = (32, 4)  # lines of the chase that level 1 surely holds, and the number of their pages
    most: tuple[float, int] = (12.0, 192)  # most pages: as a multiple of level 1's size in pages, and in all
    sizes: int = 9  # numbers of pages, half an octave apart, that are chased with one line in each
    settle: int = 3  # untimed traversals of a chase before the timed ones
    doubt: float = 0.03  # largest relative error of level 2's latency; if it is larger, the sweep's latency is kept
    sets: int = 16  # lines whose offsets differ modulo so many lines lie in different sets of level 1
    steps: int = 192  # least loads of a chase, as few as the bracket's bias allows: long chases are often disturbed
    samples: int = 32  # paired samples of a pass
    passes: tuple[int, int] = (6, 4)  # rounds, and passes in a round, some of which are undisturbed
    apart_seconds: float = 0.08  # wait between two rounds, about the length of a co-runner's time slice
    bias_cycles: float = 3.0  # systematic error of a sample in cycles, from the bracket
    alone: float = 1.02  # passes count if level 1 took at most so many times the sweep's latency at the same time
    further: float = 2.5  # rises to come, over the next one: sqrt(2) + 1 if level 1 keeps a share as 1 / pages
    overlap: float = 0.3  # part of a TLB miss that a load from level 2 may hide, but one from level 1 doesn't
    near: tuple[float, float] = (0.75, 1.3)  # least and largest ratio of level 2's latency to the sweep's


def sharpened(context: Context, region: Region, levels: Levels) -> Levels:
    """Return `levels` with better latencies of levels 1 and 2, from dense chases in `region`, where these agree with
    the size sweep and have narrower intervals."""
    params, first = NearParams(), levels.caches[0]
    found, (times, passes) = list[list[float]](), params.passes
    pages = min(params.most[0] * levels.ends_bytes.get(first, np.inf) / TLB_PAGE_BYTES, params.most[1])
    for number in range(times):
        time.sleep(params.apart_seconds if number else 0.0)
        context.progress(f"dense chases, time {number + 1}")
        found += [chased(context, region, int(pages)) for _ in range(passes)]
    few, *others = np.array(found).T
    further = np.array(others[1::2]) - others[::2]
    context.evidence["dense_cycles"] = {first: np.round(few, 3).tolist(), "further": np.round(further, 3).tolist()}
    # If a co-runner is there all the time, all passes over level 1 take longer than in the sweep, and none count.
    quiet, bias = few <= params.alone * levels.latency[first].value, params.bias_cycles / params.steps
    if not quiet.any():
        return levels
    found_l1 = low_of_samples(few[quiet], bias)
    if found_l1.high - found_l1.low < levels.latency[first].high - levels.latency[first].low:
        levels = _with_latency(levels, first, found_l1)
    if "l2" not in levels.caches:
        return levels
    l1, sweep = levels.latency[first].value, levels.latency["l2"].value
    costs = [low_of_samples(l1 + each[quiet], bias) for each in further]
    missed = params.overlap * np.maximum(np.nanmedian(np.array(others[::2])[:, quiet], axis=1) - l1, 0.0)
    # Few pages leave lines in level 1, many outgrow sets of level 2. In between, cost is that of level 2, and hardly
    # differs from that of the next number of pages.
    likely = [
        (params.further * abs(after.value - each.value) + miss, each)
        for (each, after), miss in zip(pairwise(costs), missed[:-1].tolist(), strict=True)
        if params.near[0] * sweep <= each.value <= params.near[1] * sweep
    ]
    if not likely:
        return levels
    doubt, each = min(likely)
    if doubt > params.doubt * each.value:
        return levels
    return _with_latency(levels, "l2", Interval(each.value, each.low - doubt, each.high + doubt))


def chased(context: Context, region: Region, most: int) -> list[float]:
    """Return the core cycles per load of chases in `region`: over a few lines; then, for each number of pages (up to
    `most`), two over one line in each page: at many offsets, and at two in turn. NaN if too few are undisturbed."""
    params, line, rng = NearParams(), region.line_size, context.fresh_rng()
    sizes = np.ceil(most / 2 ** (np.arange(params.sizes)[::-1] / 2)).astype(int).tolist()
    count, pages = params.few
    begin = region.address + int(rng.integers(region.size // TLB_PAGE_BYTES - sum(sizes) - pages)) * TLB_PAGE_BYTES
    slots, two = np.arange(TLB_PAGE_BYTES // line), rng.permutation(params.sets)[:2]
    others = rng.permutation(slots[~np.isin(slots % params.sets, two)])
    chains = {FEW: begin + np.arange(count) % pages * TLB_PAGE_BYTES + np.resize(others, count) * line}
    begin += pages * TLB_PAGE_BYTES
    for size in sizes:
        own = begin + rng.permutation(size) * TLB_PAGE_BYTES
        for name, offsets in (("spread", others), ("same", two)):
            chains[Base(f"{name}_{size}")] = own + np.resize(offsets, size) * line
        begin += size * TLB_PAGE_BYTES
    questions, leads, loads, places = list[Probe](), list[Probe](), list[int](), dict[Base, NDArray[np.int64]]()
    for base, lines in chains.items():
        context.machine.link(region, lines)
        # Whole traversals are timed after untimed ones, so that TLB and level 1 are as each traversal leaves them.
        count = -(-params.steps // len(lines)) * len(lines)
        leads.append(Probe().chase(base, params.settle * len(lines)).fence())
        questions.append(Probe().chase(base, count))
        loads.append(count)
        places[base] = np.repeat(lines[:1], params.samples)
    probe = Probe().paired(reference(context).work, *questions, leads=leads)
    found = run_paired(context, probe, places, accesses=2 * params.steps, warmup=2)
    return [located(found, number) / each for number, each in enumerate(loads)]


def _with_latency(levels: Levels, name: str, found: Interval) -> Levels:
    """Return `levels` with the latency `found` of level `name`."""
    nanoseconds = found.scaled(levels.ns[name].value / levels.latency[name].value)
    return replace(
        levels,
        cycles=levels.cycles | {name: found.value},
        latency=levels.latency | {name: found},
        ns=levels.ns | {name: nanoseconds},
    )
