"""How many whole pages find room in the second cache at once, found by putting pages to each other as long as all stay.

Pages are walked over round and round, each one's lines in a random order, and every page is timed by itself: a page
whose sets hold one page more than they have ways misses in many of its lines at once, which shows on any clock and
beside all but the busiest neighbours. So pages that overfill sets are told from pages that don't in a few rounds, and
left out. What prefetchers bring along is the walk's own lines, as whole pages are used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.infer.page_room import LEAST_ROUNDS, Packed, rounds_for, typical
from setebench.machine import Region
from setebench.measure.calibrate import step_ticks
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.rings import Lines, cycles_per_tick
from setebench.probe import Base, Probe
from setebench.scenario import Context

PAGE = Base("page")

STRIDES = (7, 11, 13, 17)
"""Where something disturbs, of so many pages in a row one is timed, another one in the next rounds: an address and a
result of every page would themselves take the room of some lines in every round. Prime numbers, of which one doesn't
divide the number of pages."""

WARM_ROUNDS = 3
"""Rounds before any is timed: what was in the sets before leaves them."""

CROWDED_SHARE = 0.1
"""A page is crowded where its lines take so much of the way to the next level more than a hit, on average. One page too
many in sets of eight ways makes a fifth of their lines miss or all, as lines are replaced; prefetchers hide half."""

CALIBRATIONS, HIT_QUANTILE = 8, 0.25
"""Looks at the first few pages, and which of them, from the fastest, tells what a hit costs."""

GROWTH, LEAST_MORE = 0.16, 4
"""Pages tried at once, in those that stay."""

LEFT_OUT_SHARE = 0.12
"""Of crowded pages, so many are left out at a time: one of nine would do."""

SETTLE_LOOKS, LOOKS_AGAIN = 8, 2
"""Looks at most until no page is crowded, and at pages that seem to be."""

FALSE_SHARE = 0.25
"""Of pages that stay so many may seem crowded, by chance, in a look."""

IN_VAIN = 120
"""Pages tried without any more finding room: then there is none. Pages of the last few sets that have room are rare,
one in some dozens."""

MOST_LOOKS, MOST_SECONDS = 200, 10.0
"""Looks for a set of pages at most, and about how long; half as long again for what single pages do to it."""

START_RATIOS = (2, 4)
"""Pages to begin with, in those of the first cache: enough that it holds none of their lines from round to round, where
the second has room for so many."""

START_SHARE = 0.35
"""And in those that the second one holds at least."""

MOST_PAGES = 1024
"""The largest cache that is filled."""

POOL_RATIO = 3
"""Pages to choose from, in those that stay, at least."""

SINGLE_PAGES, SINGLE_TRIES = 16, 40
"""Pages that are put one by one to those that stay, at calm moments; looks for such moments at most."""

CALM_THRESHOLDS = 0.7
"""How crowded most pages are at most while one more is put to them."""

REFUSED_THRESHOLDS, CLEAR_QUANTILE = 0.5, 0.75
"""And how much more crowded than these a page is that finds no room. Some find some; the upper ones tell how clear it
is where they don't."""


class PageRoom:
    """Pages of `region` in the second cache. `first_lines` is the first one's lines, `hit` and `miss` are cycles of
    loads from the second and from behind it, `least_lines` what it holds at least."""

    def __init__(
        self, context: Context, region: Region, first_lines: int, hit: float, miss: float, least_lines: float
    ) -> None:
        self._context, self._region = context, region
        self.page_lines = TLB_PAGE_BYTES // region.line_size
        self._per_tick = cycles_per_tick(context)
        self._margin = CROWDED_SHARE * (miss - hit) * (self.page_lines - 1)
        few, many = (ratio * first_lines // self.page_lines for ratio in START_RATIOS)
        self._start = int(np.clip(START_SHARE * least_lines / self.page_lines, few, many))
        self._rng = context.rng(99)
        self._rounds, self._looks, self._lines_left = LEAST_ROUNDS, 0, 0.0
        self._bound = float("inf")
        self.pool: Lines = np.zeros(0, dtype=np.int64)
        self.kept: Lines = self.pool
        clear = self._margin > step_ticks(context) * self._per_tick
        pages = region.size // TLB_PAGE_BYTES
        held = least_lines / self.page_lines
        self.possible = clear and self._start > 1 and held < min(MOST_PAGES, pages / POOL_RATIO)

    def packed(self) -> Packed:
        """A set of pages as large as is found, others every time."""
        pool: Lines = self._region.address + self._rng.permutation(self._region.size // TLB_PAGE_BYTES) * TLB_PAGE_BYTES
        self._calibrate(pool[: self._start])
        pages, stays = self._settled(pool[: self._start])
        best, tried, vain = pages[:0] if not stays else pages, self._start, 0
        most, self._looks = min(MOST_PAGES, len(pool) / POOL_RATIO), 0
        self._lines_left = MOST_SECONDS * self._context.machine.facts.lines_per_second
        while vain < IN_VAIN and self._looks < MOST_LOOKS and self._lines_left > 0 and len(best) < most:
            count = max(LEAST_MORE, int(GROWTH * len(pages)))
            more = np.setdiff1d(np.take(pool, np.arange(tried, tried + count), mode="wrap"), pages)
            tried, vain = tried + count, vain + count
            crowded = self._crowded(np.concatenate([pages, more]))[len(pages) :]
            pages, stays = self._settled(np.concatenate([pages, more[~crowded]]))
            if stays and len(pages) > len(best):
                best, vain = pages, 0
        self.kept, self.pool = best, pool
        return self._judged(best, pool) if len(best) > LEAST_MORE else Packed(len(best))

    def _calibrate(self, pages: Lines) -> None:
        """From which cycles on a page is crowded."""
        hits = [float(np.median(typical(self._cycles(pages), np.inf))) for _ in range(CALIBRATIONS)]
        self._bound = min(self._bound, float(np.quantile(hits, HIT_QUANTILE)) + self._margin)

    def _settled(self, pages: Lines) -> tuple[Lines, bool]:
        """Those of the pages that stay together, and whether all of them do."""
        for _ in range(SETTLE_LOOKS):
            crowded = self._crowded(pages)
            if not crowded.any():
                return pages, True
            if len(pages) <= LEAST_MORE:
                break
            again = [self._crowded(pages) for _ in range(LOOKS_AGAIN)]  # in other orders, at other times
            always = np.logical_and.reduce([crowded, *again])
            if not always.any():
                if np.mean(again) <= FALSE_SHARE:
                    return pages, True
                always = crowded  # pages of one set may miss in turns, as pages are walked over
            crowded = always
            out = crowded & (self._rng.random(len(pages)) < LEFT_OUT_SHARE)
            if not out.any():
                out[self._rng.choice(np.flatnonzero(crowded))] = True
            pages = pages[~out]
        return pages, False

    def _judged(self, pages: Lines, pool: Lines) -> Packed:
        """What single pages more do to pages that stay."""
        missing: list[float] = []
        excess: list[float] = []
        others = self._rng.permutation(np.setdiff1d(pool, pages))
        self._lines_left += MOST_SECONDS / 2 * self._context.machine.facts.lines_per_second
        for other in others[:SINGLE_TRIES].tolist():
            if self._lines_left < 0:
                break
            beside, alone = (self._thresholds(each) for each in (np.append(pages, other), pages))
            most = float(np.median(beside))
            if max(most, float(np.median(alone))) > CALM_THRESHOLDS:
                continue  # somebody else takes lines of all of them
            excess.append(float(beside[-1]) - most)
            missing.append(float(np.maximum(alone, 0.0).mean()))
            if len(excess) == SINGLE_PAGES:
                refused = float(np.mean(np.array(excess) > REFUSED_THRESHOLDS))
                share = CROWDED_SHARE * float(np.median(missing))
                return Packed(len(pages), share, refused, float(np.quantile(excess, CLEAR_QUANTILE)))
        return Packed(len(pages))

    def _thresholds(self, pages: Lines) -> NDArray[np.float64]:
        """How much more than a hit each page takes, in what makes it a crowded one."""
        more: NDArray[np.float64] = 1.0 + (typical(self._cycles(pages), self._bound) - self._bound) / self._margin
        return more

    def _crowded(self, pages: Lines) -> NDArray[np.bool_]:
        """Which pages overfill sets; how often others disturb the pages that don't tells how many rounds come next."""
        self._looks += 1
        rounds = self._cycles(pages)
        crowded: NDArray[np.bool_] = typical(rounds, self._bound) > self._bound
        slow = rounds > self._bound
        if not slow.all():
            self._rounds = rounds_for(float(slow[:, ~slow.all(axis=0)].mean()))
        return crowded

    def _cycles(self, pages: Lines) -> NDArray[np.float64]:
        """Cycles of each page's lines, but for the one whose load warms its translation, in every round; shape (rounds,
        pages). Pages are walked over in a random order, and so are their lines but for the first two."""
        count = len(pages)
        few = self._rounds == LEAST_ROUNDS  # nothing disturbs, these least of all
        stride = 1 if few else next(each for each in STRIDES if count % each)
        order = self._rng.permutation(count)
        cycles = np.empty((self._rounds, count))
        cycles[:, order] = self.timed(pages[order], self._rounds, WARM_ROUNDS, stride)
        self._lines_left -= (self._rounds * stride + WARM_ROUNDS) * count * self.page_lines
        return cycles

    def timed(self, pages: Lines, rounds: int, warm_rounds: int, stride: int = 1) -> NDArray[np.float64]:
        """Cycles of each page's lines, but for the one whose load warms its translation, in every round, shape (rounds,
        pages), pages being walked over in this order; of `stride` pages in a row one is timed, which mustn't divide
        their number. A page's lines follow each other in a random order but for the first two."""
        count, own = len(pages), self.page_lines
        self._link(pages)
        second = PAGE + self._region.line_size
        probe = Probe().load(PAGE).fence().start().chase(second, own - 1).stop()
        probe = probe if stride == 1 else probe.chase(second, stride * own - 1)
        warm = warm_rounds * count // stride
        timed = np.arange(-warm, rounds * count) * stride % count
        ticks = self._context.machine.run(probe, {PAGE: pages[timed]}, cpu=self._context.cpu, warmup=warm)
        cycles = np.empty((rounds, count))
        at = np.arange(rounds * count)
        cycles[at // count, timed[warm:]] = np.asarray(ticks, dtype=np.float64).ravel() * self._per_tick
        return cycles

    def visits(self, pages: Lines, turns: Lines) -> NDArray[np.float64]:
        """Cycles of each visit, shape (turns,), as in `timed`, `turns` telling which of the pages comes when."""
        probe = Probe().load(PAGE).fence().start().chase(PAGE + self._region.line_size, self.page_lines - 1).stop()
        self._link(pages)
        ticks = self._context.machine.run(probe, {PAGE: turns}, cpu=self._context.cpu)
        cycles: NDArray[np.float64] = np.asarray(ticks, dtype=np.float64).ravel() * self._per_tick
        return cycles

    def _link(self, pages: Lines) -> None:
        places = np.tile(np.arange(self.page_lines), (len(pages), 1))
        places[:, 2:] = self._rng.permuted(places[:, 2:], axis=1)
        self._context.machine.link(self._region, (pages[:, None] + places * self._region.line_size).ravel())
