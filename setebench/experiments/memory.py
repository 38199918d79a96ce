"""Latency of memory: chases over lines that were just flushed, each in a page of its own."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.experiments.lines.layout import MOST_APART, TLB_PAGE_BYTES
from setebench.experiments.paired import run_paired
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.pairs import cycles_per_tick, located, ticks


class MemoryParams(msgspec.Struct, frozen=True, kw_only=True):
    """How flushed lines are chased."""

    lines: int = 8  # of one chase, a page each: within any first TLB, and too few for a prefetcher of pages
    samples: int = 48  # chases of a round
    settle: int = 2000  # cycles behind the flushes: written-back lines are on their way that long


class MemoryRound(NamedTuple):
    """One round: core cycles and nanoseconds of a load, and the core's pace meanwhile, cycles per tick."""

    cycles: float
    ns: float
    cycles_per_tick: float


LINES = Base("lines")


class FlushedChase(NamedTuple):
    """What puts lines out of all caches and readies their translations, a chase along them, and where the lines of each
    sample begin, shape (samples,)."""

    before: Probe
    chase: Probe
    first: NDArray[np.int64]


def flushed_chase(context: Context, region: Region, samples: int, params: MemoryParams | None = None) -> FlushedChase:
    """A chase over flushed lines of `region`, other ones at every call. Pages lie apart, as what is close may share an
    open row of memory; another line of each page is loaded behind the flush, so that no translation is missing."""
    params, rng = params or MemoryParams(), context.fresh_rng()
    apart = max(min(MOST_APART, region.size // TLB_PAGE_BYTES // params.lines), 1)
    per_page = TLB_PAGE_BYTES // region.line_size
    offsets = np.arange(params.lines) * apart * TLB_PAGE_BYTES
    lines = offsets + rng.permutation(per_page // 2)[np.arange(params.lines) % (per_page // 2)] * region.line_size
    warmers = offsets + (per_page // 2 + rng.integers(0, per_page // 4, params.lines)) * region.line_size
    room = region.size // TLB_PAGE_BYTES - int(offsets[-1]) // TLB_PAGE_BYTES
    first = region.address + rng.choice(room, samples, replace=room < samples) * TLB_PAGE_BYTES
    for each in first:
        context.machine.link(region, each + lines)
    probe = Probe()
    for line in lines:
        probe = probe.flush(LINES + int(line))
    probe = probe.fence().wait(params.settle)
    for warmer in warmers:
        probe = probe.load(LINES + int(warmer))
    return FlushedChase(probe.fence(), Probe().chase(LINES + int(lines[0]), params.lines), first)


def memory_once(context: Context, region: Region) -> MemoryRound:
    """One round of chases."""
    params = MemoryParams()
    before, chase, first = flushed_chase(context, region, params.samples, params)
    found = run_paired(context, before.paired(chase), {LINES: first}, accesses=params.lines, warmup=0)
    seconds = ticks(found) / context.machine.facts.ticks_per_second
    return MemoryRound(located(found) / params.lines, seconds * 1e9 / params.lines, cycles_per_tick(found))
