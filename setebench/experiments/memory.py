"""Measure the latency of memory: pointer chases over lines that were just flushed, each in a page of its own."""

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
    """Tunables of the chases of flushed lines."""

    lines: int = 8  # lines of one chase, each in its own page: any first TLB holds so many; they train no prefetcher
    samples: int = 48  # chases of a round
    settle: int = 2000  # cycles of waiting after flushes, until lines that were written back have reached memory


WARMERS = Base("warmers")


class Scattered(NamedTuple):
    """Lines of a pointer chase: operands `lines` in chase order, each in its own page; operands `warmers`, other lines
    of these pages, which are loaded first to fill the TLB; addresses `places` of each base, shape (samples,)."""

    lines: tuple[Operand, ...]
    warmers: tuple[Operand, ...]
    places: dict[Base, NDArray[np.int64]]

    @property
    def chase(self) -> Probe:
        """The probe that loads all lines one after the other, each load dependent on the one before."""
        return Probe().chase(self.lines[0], len(self.lines))

    def flushed(self, settle_cycles: int) -> Probe:
        """Return the probe that flushes all lines and waits for `settle_cycles`, until the flushes are done."""
        probe = Probe()
        for line in self.lines:
            probe = probe.flush(line)
        return probe.fence().wait(settle_cycles)

    def translated(self) -> Probe:
        """Return the probe that loads all warmers, so that the TLB holds the translations of the chased lines."""
        probe = Probe()
        for warmer in self.warmers:
            probe = probe.load(warmer)
        return probe.fence()


def flushed(where: Base, size: int, line_size: int) -> Probe:
    """Return the probe that flushes `size` bytes from base `where` on, in lines of `line_size` bytes, and waits."""
    away = Probe().repeat(size // line_size, Probe().flush(where), advance=line_size)
    return away.fence().wait(MemoryParams().settle)


def scattered(context: Context, region: Region, count: int, samples: int) -> Scattered:
    """Return `count` lines drawn at random from `region`, each linked to the next, with their addresses in `samples`
    samples. Their pages lie apart, as neighbouring ones may share an open DRAM row. Each sample draws every line anew
    from half of its page, and warmers from the other half: a prefetcher that learned the distances between lines would
    otherwise fetch each line in time."""
    rng, line = context.fresh_rng(), region.line_size
    spacing = max(min(MOST_APART, region.size // TLB_PAGE_BYTES // count), 1)
    half = TLB_PAGE_BYTES // line // 2
    offsets = np.arange(count) * spacing * TLB_PAGE_BYTES
    room = region.size // TLB_PAGE_BYTES - int(offsets[-1]) // TLB_PAGE_BYTES
    pages = region.address + rng.choice(room, samples, replace=room < samples) * TLB_PAGE_BYTES
    addresses = pages[:, np.newaxis] + offsets + rng.integers(0, half, (samples, count)) * line
    for each in addresses:
        context.machine.link(region, each)
    lines = tuple(Base(f"line_{number}") for number in range(count))
    places = dict(zip(lines, addresses.T, strict=True)) | {WARMERS: pages + rng.integers(0, half // 2, samples) * line}
    warmers = offsets + (half + rng.integers(0, half // 4, count)) * line
    return Scattered(tuple(base + 0 for base in lines), tuple(WARMERS + offset for offset in warmers.tolist()), places)


def memory_ns(context: Context, region: Region) -> float:
    """Return the latency of memory in nanoseconds, from one round of chases over flushed lines of `region`."""
    params = MemoryParams()
    chased = scattered(context, region, params.lines, params.samples)
    probe = (chased.flushed(params.settle) + chased.translated()).paired(reference(context).work, chased.chase)
    found = run_paired(context, probe, chased.places, accesses=params.lines, warmup=0)
    return ticks(found) / context.machine.facts.ticks_per_second * 1e9 / params.lines
