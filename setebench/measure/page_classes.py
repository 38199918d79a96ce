"""How many classes of pages a cache tells apart: its size, once the ways and the lines of one set are known.

A page holds a line of every set of its class, as long as the lines of one page all belong to different sets. So the
share of pages with a line of the known set is one over the number of classes. It is counted twice. Of whole pages: what
prefetchers bring along in them are their own lines, which count anyway; but lines that stay in the first cache are not
seen in a next one that only takes what the first gives up, so there may seem to be more classes than there are. And of
single lines at one offset: as rare as pages of a class where the index is taken from the address as it is, and so many
times rarer as a page has lines where it is hashed; but there prefetchers bring lines of the set as well, so there may
seem to be fewer. Where the two agree, neither is the case.

Lines at one offset push each other out of a first cache whose ways are no larger than a page. Behind larger ways none
can be counted: a line that stays in the first cache is no longer used in the next one, and soon isn't there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from setebench.infer.ticks import mean_ticks
from setebench.machine import Region
from setebench.measure.calibrate import step_ticks
from setebench.measure.eviction import Congruent
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.rings import Lines, cycles_per_tick
from setebench.measure.thinning import COMPANION_BYTES, Latencies, repetitions
from setebench.probe import Base, Probe
from setebench.scenario import Context

RING, FLUSHERS, HELD = Base("ring"), Base("flushers"), Base("held")

PAGES_PER_WAY, MOST_PAGES, MOST_LINES = 2, 256, 4096
"""Pages of a chunk at least, per way of the first cache, so that they push each other out of it. Pages and lines of a
chunk at most."""

TRIAL_CHUNKS, CHUNKS = 24, 200
SHARES = 0.4, 0.97
"""Chunks are made longer until so many of them hold a line of the set; of many chunks then, the number of classes is
known to a quarter (two standard errors), and powers of two can't be mistaken for each other. Where more do, there are
too few classes to be counted this way."""

SURE_EVERY = 4
"""Every so many chunks one with a line known to belong to the set is tried: a chunk that holds a line unnoticed would
make such lines look rarer, and the cache larger, than it is."""

FLUSHES_PER_WAY = 12
"""Loads that push lines out of the first cache, per way of it: where it may replace any line, one in 150000 is left;
else a third would do."""

SURE_TIMES, WITHOUT_TIMES = 4, 3
"""How often a set is asked whether it is one; and at most without each line that is held foreign."""

ROUNDS, WARM_ROUNDS = 2, 24
"""Rounds over a chunk before every timing, and before the first: where replacement is random, lines that do fit into a
set have by then found their places."""

GONE_LINES = 0.5
"""Of the lines held, so many are missing, on average, where the set is overfull; nearly all under any order of use, one
at the least."""

UNCLEAR_LINES, UNCLEAR_TIMES = (0.25, 0.8), 4
"""Numbers between are looked at so often more: where one line is missing, as in a cache that takes only what the first
one gives up, a coarse clock tells half of one or none now and then."""

KEPT_LOOKS = 5
"""Latest looks at what the lines held take, of which the median counts."""

ALL_SHARE = 0.85
"""All lines are lost if so many are. Where any line may be replaced a few stay, even of two."""

SAME_RATIO = 1.4
"""Two counts agree within this ratio: both are known to a quarter, and half or twice as many are meant to be told."""


class Classes(NamedTuple):
    """A number of page classes, and its 95 % interval."""

    value: float
    low: float
    high: float


class PageClasses:
    """Counts the classes of pages by a set of lines found in `region`."""

    def __init__(
        self, context: Context, region: Region, first_ways: int, latencies: Latencies, found: Congruent
    ) -> None:
        self._context, self._region, self._first_ways, self.found = context, region, first_ways, found
        self._rng = context.rng(73)
        self._per_tick, self._step = cycles_per_tick(context), step_ticks(context)
        self._miss_cycles = latencies.beyond - latencies.own
        self._times = repetitions(self._step * self._per_tick, latencies)
        used = (np.concatenate([found.lines, found.flushers]) - region.address) // TLB_PAGE_BYTES
        self._free = np.setdiff1d(np.arange(region.size // TLB_PAGE_BYTES), used)
        self._kept: list[float] = []

    def sure(self) -> bool:
        """Whether the last line of the set overfills it together with the others, foreign lines don't, and none of
        these takes a way: so the set has as many ways as it has other lines. It is timed in another way than the set
        was found in."""
        lines, foreign = self.found.lines, self.found.flushers
        if len(lines) < 2 or not len(foreign):
            return False
        for _ in range(KEPT_LOOKS):
            self._look_at_kept()
        # on average: where any line may be replaced, now and then none is missing
        gone = float(np.mean([self.gone(lines[-1:]) for _ in range(SURE_TIMES)]))
        # each of them: where the set is overfull by two that are held foreign, a few may seem not to overfill it
        return gone > GONE_LINES and all(
            not self._overfull(foreign[number : number + 1]) and self._overfull_without(number)
            for number in range(len(foreign))
        )

    def by_age(self) -> bool:
        """Whether the set loses all of its lines to one more, as one does that replaces lines in the order in which
        they came or were used: a walk over a little more than the cache holds then leaves nothing else. `sure` comes
        first."""
        lost = float(np.median([self.gone(self.found.lines[-1:]) for _ in range(SURE_TIMES)]))
        return lost > ALL_SHARE * self.found.ways

    def _overfull_without(self, number: int) -> bool:
        """Whether the set is overfull without this flusher, which would be a line of it if it weren't. Under random
        replacement a few lines more or less are missing each time, so once is enough."""
        rest = np.delete(self.found.flushers, number)
        return any(self.gone(self.found.lines[-1:], rest) > GONE_LINES for _ in range(WITHOUT_TIMES))

    def count(self) -> Classes | None:
        """None where chunks of random pages and lines don't tell. `sure` comes first."""
        by_lines = self._rarity(self._lines, 1, MOST_LINES)
        if by_lines is None:
            return None
        by_pages = self._rarity(self._pages, PAGES_PER_WAY * self._first_ways, MOST_PAGES)
        return agreed(by_pages, by_lines, TLB_PAGE_BYTES // self._region.line_size)

    def _rarity(self, draw: Callable[[int], Lines], least: int, most: int) -> Classes | None:
        """One in how many pages (or lines) that `draw` draws belongs to the set; of half as many as there should be if
        nearly all chunks hold one else."""
        size = least
        while size <= min(most, len(self._free)):
            share = self._share(draw, size, TRIAL_CHUNKS)
            if share is None:
                return None
            if share >= SHARES[0]:
                told = self._told(draw, size)
                return told if told is not None or size == 1 else self._told_by_half(draw, size)
            size *= 2
        return None

    def _told_by_half(self, draw: Callable[[int], Lines], size: int) -> Classes | None:
        """What chunks of half this size tell, nearly all of which hold a line of the set. Pages so few that the first
        cache holds all of their lines show none, so that there would seem to be far more classes."""
        told = self._told(draw, size // 2)
        return told if told is not None and told.low < size else None

    def _told(self, draw: Callable[[int], Lines], size: int) -> Classes | None:
        share = self._share(draw, size, CHUNKS)
        if share is None or not 0.0 < share < SHARES[1]:
            return None
        error = 2.0 * (share * (1 - share) / CHUNKS) ** 0.5
        low, high = (min(max(each, 0.01), 0.99) for each in (share - error, share + error))
        return Classes(*(1.0 / (1.0 - (1.0 - each) ** (1.0 / size)) for each in (share, high, low)))

    def _share(self, draw: Callable[[int], Lines], size: int, chunks: int) -> float | None:
        """The share of chunks that hold a line of the set; None where one that surely does isn't always found out."""
        hits = 0
        for number in range(chunks):
            chunk = draw(size)
            if number % SURE_EVERY == 0:
                self._look_at_kept()
                if not self._overfull(np.append(chunk[1:], self.found.lines[-1])):
                    return None
            hits += self._overfull(chunk)
        return hits / chunks

    def _pages(self, count: int) -> Lines:
        """All lines of so many random pages."""
        line = self._region.line_size
        begin = self._region.address + self._rng.choice(self._free, count, replace=False) * TLB_PAGE_BYTES
        lines: Lines = (begin[:, None] + np.arange(TLB_PAGE_BYTES // line)[None, :] * line).ravel()
        return self._rng.permutation(lines)

    def _lines(self, count: int) -> Lines:
        """So many lines of random pages, at the offset of a line of the set."""
        begin = self._region.address + self._rng.choice(self._free, count, replace=False) * TLB_PAGE_BYTES
        return begin + int(self.found.lines[0]) % TLB_PAGE_BYTES

    def _overfull(self, chunk: Lines) -> bool:
        """Whether the chunk and all lines of the set but one overfill it; a disturbance is not there twice, and what is
        near one line and none is looked at more often."""
        gone = min(self.gone(chunk), UNCLEAR_LINES[1])
        if gone > GONE_LINES:
            gone = min(gone, self.gone(chunk))
        if UNCLEAR_LINES[0] < gone < UNCLEAR_LINES[1]:
            gone = float(np.median([gone, *(self.gone(chunk) for _ in range(UNCLEAR_TIMES))]))
        return gone > GONE_LINES

    def _look_at_kept(self) -> None:
        """What the lines held take when none is missing, anew: cycles are not always as many ticks."""
        self._kept = [*self._kept[1 - KEPT_LOOKS :], self._ticks(self.found.lines[:0])]

    def gone(self, chunk: Lines, flushers: Lines | None = None) -> float:
        """How many of the lines of the set but the last are missing behind these. `sure` comes first."""
        return (self._ticks(chunk, flushers) - float(np.median(self._kept))) * self._per_tick / self._miss_cycles

    def _ticks(self, chunk: Lines, flushers: Lines | None = None) -> float:
        """Mean ticks of a chase over the lines held, after rounds over chunk and them, all out of the first cache."""
        machine, cpu = self._context.machine, self._context.cpu
        held, flushers = self.found.lines[:-1], self.found.flushers if flushers is None else flushers
        # the chunk last: with the lines held used last, none of them would ever be missing under LRU
        ring = np.concatenate([held, chunk])
        machine.link(self._region, ring)
        machine.link(self._region, flushers)
        flushed = len(flushers) * -(-FLUSHES_PER_WAY * self._first_ways // len(flushers))
        probe = Probe().chase(RING, ROUNDS * len(ring)).fence().chase(FLUSHERS, flushed).fence()
        # for their translations; a load there would teach a region prefetcher to bring the lines held back in
        for offset in self._beside(held):
            probe = probe.flush(HELD + offset)
        probe = probe.fence().start().chase(HELD, len(held)).stop()
        warm = WARM_ROUNDS // ROUNDS
        begins = {RING: ring[0], FLUSHERS: flushers[0], HELD: held[0]}
        placements = {base: np.full(self._times + warm, begin) for base, begin in begins.items()}
        ticks = machine.run(probe, placements, cpu=cpu, warmup=warm).ravel()
        if len(chunk):  # under a tree of bits its lines might stay, and the set be overfull behind any others
            machine.run(Probe().flush(RING), {RING: chunk}, cpu=cpu)
        return mean_ticks(ticks, self._step)

    def _beside(self, held: Lines) -> list[int]:
        """Offsets, from the first line held, of one other line in the page of each."""
        other = np.where(held % TLB_PAGE_BYTES < COMPANION_BYTES, held + COMPANION_BYTES, held - COMPANION_BYTES)
        return [int(each) for each in other - held[0]]


def agreed(by_pages: Classes | None, by_lines: Classes, lines_per_page: int) -> Classes | None:
    """The number of page classes, from one in how many pages and one in how many lines at one offset belong to a set;
    None where they contradict each other.

    Pages can only seem too rare, lines of a hashed index too frequent, so where the two agree both are right."""
    if by_pages is None:
        return None
    if by_lines.value <= SAME_RATIO * by_pages.value:
        return by_lines
    hashed = Classes(*(each / lines_per_page for each in by_lines))
    return hashed if 1 / SAME_RATIO < by_pages.value / hashed.value < SAME_RATIO else None
