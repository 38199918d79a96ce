"""Line size by flushing, and the first data cache's ways and way size by conflicts. All of it exact or not told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setebench.infer.capacity import Capacity, capacity, twice
from setebench.infer.ticks import mean_ticks
from setebench.machine import Region, run_interleaved
from setebench.measure.calibrate import step_ticks
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.rings import Lines, empty_sets, rings_cycles, shuffled
from setebench.probe import Base, Probe
from setebench.scenario import Context

LEAST_DISTANCE, MOST_DISTANCE = 8, 1024
"""Line sizes that can be found are above the first and up to half of the second."""

FLUSH_SAMPLES = 120
SETTLE_CYCLES = 2000

LEAST_STRIDE, LARGEST_STRIDE, MOST_WAYS = 512, 1 << 16, 48
"""Strides tried for the way size; the largest are those of caches of two to four ways."""

CONFLICT_CYCLES = 0.3
"""Cycles per step that tell a conflict. The next level is further by six cycles or more everywhere, and with one line
too many in a set at least two of its lines miss per round, even under random replacement."""

SAME_RATIO = 1.25
"""Numbers of lines that fit are the same within this ratio, or else the one is about twice the other. Below a page's
length prefetchers bring lines that nobody asked for, so the step is not exact."""

HERE, THERE = Base("here"), Base("there")


def line_size(context: Context, region: Region) -> int | None:
    """Bytes that a flush removes from the caches at once; None where the two outcomes can't be told apart.

    A flush takes exactly one line. Of two loads nearby, the second one's being a hit may be a prefetcher's doing; but
    nothing is loaded between the flush and the load that is timed, so what misses was part of the flushed line."""
    rng = context.rng(31)
    page = region.address + rng.integers(0, region.size // TLB_PAGE_BYTES, FLUSH_SAMPLES) * TLB_PAGE_BYTES
    here = page + rng.integers(0, TLB_PAGE_BYTES // MOST_DISTANCE, FLUSH_SAMPLES) * MOST_DISTANCE
    distances = [0, *(LEAST_DISTANCE << n for n in range((MOST_DISTANCE // LEAST_DISTANCE).bit_length() - 1))]
    probe = Probe().load(HERE).load(THERE).fence().flush(HERE).fence().wait(SETTLE_CYCLES).fence()
    probe = probe.start().load(THERE).stop()
    ticks = run_interleaved(
        context.machine,
        [probe] * len(distances),
        [{HERE: here, THERE: here + distance} for distance in distances],
        rng,
        cpu=context.cpu,
    )
    means = [mean_ticks(each, step_ticks(context)) for each in ticks]
    return line_from_means(distances, means)


def line_from_means(distances: list[int], means: list[float]) -> int | None:
    """The smallest distance that was a hit, if all smaller ones missed and all larger ones hit; else None.

    The first distance is 0, a sure miss; the last, a sure hit."""
    middle, gap = (means[0] + means[-1]) / 2, means[0] - means[-1]
    if gap <= 0 or any(abs(mean - middle) < 0.2 * gap for mean in means):
        return None
    hits = [mean < middle for mean in means]
    first = hits.index(True)
    return distances[first] if all(hits[first:]) else None


@dataclass(frozen=True)
class Geometry:
    """Ways of a cache and bytes per way; `reason` says why one is missing, `low_bytes` what it holds then at least by
    the sweep. `whole_bytes` is the size where it is known without bytes per way; `least_bytes` how much it holds for
    sure, where that was measured, and `most_bytes` how much it may; `ways_reason` why the ways are missing, should that
    be another reason."""

    ways: int | None
    way_bytes: int | None
    reason: str = ""
    low_bytes: float | None = None
    whole_bytes: int | None = None
    least_bytes: int | None = None
    most_bytes: int | None = None
    ways_reason: str = ""

    @property
    def size(self) -> int | None:
        """Bytes."""
        if self.whole_bytes is not None:
            return self.whole_bytes
        return self.ways * self.way_bytes if self.ways and self.way_bytes else None

    @property
    def held_bytes(self) -> float:
        """Bytes that it holds at least, by whatever told that; 0 if nothing did."""
        return float(self.size or self.least_bytes or self.low_bytes or 0)


def first_level(context: Context, region: Region) -> Geometry:
    """Ways and way size of the first data cache.

    Lines at a stride of a way fall into one set, however the cache is indexed within a page. At half that stride twice
    as many fit; at twice that stride no more."""
    found: dict[int, Capacity | None] = {}

    def fitting(stride: int) -> float:
        """Lines that fit; not exact but at a stride of whole pages, where no two lines of a ring share a page."""
        if stride not in found:
            found[stride] = _fitting(context, region, stride)
        each = found[stride]
        return float("nan") if each is None or each.spills is None else (each.fits + each.spills - 1) / 2

    stride = TLB_PAGE_BYTES
    while stride < LARGEST_STRIDE and fitting(2 * stride) < SAME_RATIO * fitting(stride) / 2:
        stride *= 2
    while stride > LEAST_STRIDE and fitting(stride // 2) < SAME_RATIO * fitting(stride):
        stride //= 2
    ways = found[max(stride, TLB_PAGE_BYTES)]
    if ways is None or not ways.exact:
        return Geometry(None, None, "no clear conflict between lines a page apart; run again at a quieter time")
    same, double = fitting(2 * stride) / ways.fits, fitting(stride // 2) / ways.fits
    if not 1 / SAME_RATIO < same < SAME_RATIO:  # fewer at twice the stride: ways are larger still, and fewer
        return Geometry(None, None, "lines at strides of pages don't conflict as they should; run again")
    if not double > 2 / SAME_RATIO:
        return Geometry(ways.fits, None, "lines at half and twice a stride don't conflict as they should; run again")
    return Geometry(ways.fits, stride)


def _fitting(context: Context, region: Region, stride: int) -> Capacity | None:
    """How many lines at this stride fit."""
    line = region.line_size
    rng = context.rng(32 + stride)
    begin = region.address + int(rng.integers(0, region.size // TLB_PAGE_BYTES // 8)) * TLB_PAGE_BYTES

    limit = min(2 * MOST_WAYS, (region.size // 2) // stride)

    def excess(count: int) -> float:
        # the same pages without conflicts, so that what the pages' translations cost falls out
        number = np.arange(count)
        # in another set every time: one that the machine's own data use as well would seem to have a way less
        at = begin + int(rng.integers(0, TLB_PAGE_BYTES // line)) * line
        tight: Lines = at + number * stride
        loose: Lines = tight + (number * line) % max(stride, TLB_PAGE_BYTES)
        empty_sets(context, at + np.arange(limit) * stride)
        own, control = rings_cycles(context, region, (shuffled(context, tight), shuffled(context, loose)))
        return own - control

    return capacity(
        twice(twice(twice(excess, CONFLICT_CYCLES), CONFLICT_CYCLES), CONFLICT_CYCLES), 2, limit, CONFLICT_CYCLES
    )
