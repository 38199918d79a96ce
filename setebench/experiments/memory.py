"""Latency of memory: chases over lines that were just flushed, each in a page of its own."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import reference
from setebench.experiments.lines.layout import MOST_APART, TLB_PAGE_BYTES
from setebench.experiments.paired import run_paired
from setebench.machine import Region
from setebench.probe import Base, Operand, Probe
from setebench.scenario import Context
from setebench.stats.pairs import ticks


class MemoryParams(msgspec.Struct, frozen=True, kw_only=True):
    """How flushed lines are chased."""

    lines: int = 8  # of one chase, a page each: within any first TLB, and too few for a prefetcher of pages
    samples: int = 48  # chases of a round
    settle: int = 2000  # cycles behind the flushes: written-back lines are on their way that long


LINES, WARMERS = Base("lines"), Base("warmers")


class Scattered(NamedTuple):
    """Lines that are chased in this order, a page each, other lines of the same pages (`warmers`), and where both lie
    in each sample."""

    lines: tuple[Operand, ...]
    warmers: tuple[Operand, ...]
    places: dict[Base, NDArray[np.int64]]

    @property
    def chase(self) -> Probe:
        """Dependent loads of all lines."""
        return Probe().chase(self.lines[0], len(self.lines))

    def flushed(self, settle_cycles: int) -> Probe:
        """Flushes of all lines, and a wait until these are done."""
        probe = Probe()
        for line in self.lines:
            probe = probe.flush(line)
        return probe.fence().wait(settle_cycles)

    def translated(self) -> Probe:
        """Loads of all warmers, so that the TLB holds the pages of the lines that are chased next."""
        probe = Probe()
        for warmer in self.warmers:
            probe = probe.load(warmer)
        return probe.fence()


def flushed(where: Base, size: int, line_size: int) -> Probe:
    """Every line of so many bytes taken out of all caches, and time for that to end."""
    away = Probe().repeat(size // line_size, Probe().flush(where), advance=line_size)
    return away.fence().wait(MemoryParams().settle)


def scattered(context: Context, region: Region, count: int, samples: int) -> Scattered:
    """So many linked lines of `region`, other ones at every call. Their pages lie apart, as what is close may share an
    open row of memory; from sample to sample lines and warmers move on their own, each within half a page, or a region
    prefetcher would learn from some samples which line follows a warmer."""
    rng = context.fresh_rng()
    spacing = max(min(MOST_APART, region.size // TLB_PAGE_BYTES // count), 1)
    quarter = TLB_PAGE_BYTES // region.line_size // 4
    offsets = np.arange(count) * spacing * TLB_PAGE_BYTES
    lines = offsets + rng.permutation(quarter)[np.arange(count) % quarter] * region.line_size
    warmers = offsets + (2 * quarter + rng.integers(0, quarter // 2, count)) * region.line_size
    room = region.size // TLB_PAGE_BYTES - int(offsets[-1]) // TLB_PAGE_BYTES
    pages = region.address + rng.choice(room, samples, replace=room < samples) * TLB_PAGE_BYTES
    places = {base: pages + rng.integers(0, quarter, samples) * region.line_size for base in (LINES, WARMERS)}
    for each in places[LINES]:
        context.machine.link(region, each + lines)
    return Scattered(_operands(LINES, lines), _operands(WARMERS, warmers), places)


def _operands(base: Base, offsets: NDArray[np.int64]) -> tuple[Operand, ...]:
    return tuple(base + offset for offset in offsets.tolist())


def memory_ns(context: Context, region: Region) -> float:
    """Nanoseconds of a load in one round of chases."""
    params = MemoryParams()
    chased = scattered(context, region, params.lines, params.samples)
    probe = (chased.flushed(params.settle) + chased.translated()).paired(reference(context).work, chased.chase)
    found = run_paired(context, probe, chased.places, accesses=params.lines, warmup=0)
    return ticks(found) / context.machine.facts.ticks_per_second * 1e9 / params.lines
