"""The data TLBs of small and of large pages: entries, and what a miss costs.

A few pages are chased through after some others were used, and right afterwards once more by other lines: these are as
far away, but are translated, so the difference is translation and nothing else. Its curve over the number of pages has
a step for each TLB (`stats.steps`). Pages are neighbours, which fill sets evenly whether bits of their number choose
these or a hash; they are touched in random order first, so that no two get neighbouring frames and share an entry. The
first TLB is counted to the entry: where one page too many is used in turn, its set loses all it holds each time, and a
chase costs more than one through as many lines on few pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from scipy import ndimage

from setebench.experiments.chases import ChaseParams, Lines, chase_cycles, translation_cycles
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats import decide
from setebench.stats.estimate import Interval
from setebench.stats.pairs import Numbers
from setebench.stats.rounds import LATENCY, MIDDLE, RATE, quantile_of_rounds
from setebench.stats.steps import STEPS, Step, entries_of, oddness, steps

SMALL_PAGE, HUGE_PAGE = 4096, 2 << 20
"""Bytes of x86-64's pages that systems use for data (AMD64 Architecture Programmer's Manual 2, 5.3)."""

METHOD = "loads from few pages after others were used, and once more"
COUNTED = "chases round and round over lines on pages of their own, and packed"


@dataclass(frozen=True, kw_only=True)
class TlbParams:
    """How TLBs are looked for."""

    most: int = 9728  # pages at most; the largest second TLB known has 4,096 entries, and its step a plateau behind
    least: int = 12  # pages at least; fewer than any TLB has
    ratio: float = 1.06  # of a number of pages to the one before: steps are known as well, more numbers cost time
    dense: int = 16  # numbers from a step's begin to its end, and a little beyond, each timed `draws` times
    draws: int = 4
    beyond: float = 1.08  # times the step's end, and the same below its begin
    align_bytes: int = 1 << 24  # of the first page: bits of page numbers that are hashed with lower ones are the same
    slot_bytes: int = 128  # from one line to the next of a page: prefetched neighbours are of no use to any chase
    rise: float = 0.03  # of the plateau: one page too many for a set of 4 ways is 5 misses in 129 loads; less is noise
    looks: int = 3  # at a number of pages before its cost counts as risen: a disturbance would have to come each time
    most_first: int = 320  # pages; first TLBs with more entries (160 are the most known) are not counted one by one
    targets: int = 8  # pages that are timed; the first TLB has at least twice as many entries
    hit: tuple[float, float] = (1.2, 0.7)  # times the first step's end, and the second one's begin: the plateau between
    alone: float = 4.0  # times the first step's end: the same where no second step shows
    walk: tuple[float, float] = (1.1, 2.5)  # times the second step's end: tables of further pages leave the caches
    off: float = 0.8  # of the entries: others' pages between loads and what is timed make the step begin earlier
    sharp: float = 1.35  # times the entries, half of the step has risen at most, if pages fill sets of any ways evenly
    steep: float = 1.25  # ratio of where three quarters and a quarter of a step have risen, if pages fill sets evenly
    early: float = 1.15  # times the entries, where a quarter has risen of the same: -ln(3/4) times 4
    latest: float = 1.4  # times the entries, where half of a step has risen if these are replaced at random: 2 ln 2
    odd: int = 15  # largest odd divisor of entries; numbers that unevenly filled sets leave have seldom a small one
    most_odd: int = 5  # the same of those inferred from a step: 14 of 16 ways are left where others take 2 of each set
    counts: float = 0.98  # of the most that a round counted: so many were counted where nothing else took entries
    seen: int = 2  # rounds that must show a step: others may be disturbed, and what disturbs has no plateaus
    last: int = 5  # numbers of pages that show what a translation costs at the end
    agree: float = 1.1  # ratio of rounds' steps up to which the same table was seen: what else runs takes entries
    precise: float = 0.25  # half width of a penalty, relative, up to which it is a value
    blurred: float = 1.4  # the same of steps that are not sharp, as where a hypervisor's tables are walked, too
    large_bytes: int = 1 << 30  # of large pages at most; all of them get real memory
    memory: float = 0.125  # of the memory on offer


PARAMS = TlbParams()
CHASE, LONG = ChaseParams(samples=16), ChaseParams(samples=12)


class TlbRound(msgspec.Struct, frozen=True, kw_only=True):
    """What one round saw: cycles that a load costs more on a page of its own, by number of pages that are used in turn,
    shape (n,) each; and how many pages fit into the first TLB, None where that was not seen."""

    pages: Numbers
    cycles: Numbers
    counted: int | None = None

    def levels(self) -> tuple[Step | None, Step | None]:
        """The steps of the first and of the second TLB, where they are seen."""
        first, second, *_ = [*steps(self.pages, self.cycles), None, None]
        late = first is not None and first.risen[0] > PARAMS.most_first  # no first TLB is as large: its step was missed
        return (None, first) if late else (first, second)

    def misses(self) -> tuple[float, float]:
        """Cycles that a miss in the first TLB and one in both take longer than a hit in the first, NaN where no such
        step shows."""
        first, second = self.levels()
        if first is None:
            return float("nan"), float("nan")
        low = PARAMS.hit[0] * first.risen[2]
        high = max(low, PARAMS.hit[1] * second.risen[0] if second else PARAMS.alone * low)
        # as many pages as a cache has lines push out the lines that are timed again sooner than those timed first
        hit = max(first.behind, self._middle(low, high))
        if second is None:
            return hit, float("nan")
        low, high = (times * second.risen[2] for times in PARAMS.walk)
        return hit, self._middle(low, high) if (low + high) / 2 <= self.pages[-1] else second.behind

    def _middle(self, low: float, high: float) -> float:
        within = (self.pages >= low) & (self.pages <= high)
        return float(np.median(self.cycles[within])) if within.any() else -np.inf


class TlbPages:
    """Memory in pages of one size for chases over some of them, in all rounds. `close` gives it back."""

    def __init__(self, context: Context, region: Region) -> None:
        self.context, self.region, self.bytes, self.rng = context, region, region.page_size, context.fresh_rng()
        align = max(PARAMS.align_bytes, self.bytes)
        self.begin, self.slots = -(-region.address // align) * align, self.bytes // PARAMS.slot_bytes
        self.most = min(PARAMS.most, (region.address + region.size - self.begin) // self.bytes)
        context.machine.link(region, self.rng.permutation(self.lines(self.most)))

    def close(self) -> None:
        """Give the memory back."""
        self.context.machine.release(self.region)

    def lines(self, pages: int) -> Lines:
        """One of each page, evenly over the sets of caches that are chosen by the lowest bits of addresses."""
        number = np.arange(pages, dtype=np.int64)
        slot = (number + number // 32 if self.bytes == SMALL_PAGE else number * 67) % self.slots
        return self.begin + number * self.bytes + slot * PARAMS.slot_bytes

    def few(self, count: int) -> Lines:
        """So many lines on as few pages as hold them, every other one of each; all pages in turn, as translations are
        used in turn by the lines on pages of their own."""
        page = self.rng.permutation(-(-count // self.slots))[:, None]
        slot = self.rng.permuted(np.tile(np.arange(self.slots), (len(page), 1)), axis=1)
        lines = self.begin + page * self.bytes + slot * PARAMS.slot_bytes
        return np.asarray(lines.T[(page * self.slots + slot < count).T])

    def fits(self, pages: int, limit: float) -> bool:
        """Whether so many pages, used in turn, cost no more than as many lines on few pages, which do fit."""
        for _ in range(PARAMS.looks):
            lines = self.rng.permutation(self.lines(pages)), self.few(pages)
            own, packed = (chase_cycles(self.context, self.region, each, CHASE) for each in lines)
            if own - packed <= limit:
                return True
        return False

    def miss(self, pages: int) -> float:
        """Cycles that translations of some of so many pages take once all others were used."""
        lines = self.lines(max(pages, 2 * PARAMS.targets))
        if pages > PARAMS.most_first:  # at random, as sets overflow one by one
            lines = self.rng.permutation(lines)
        # else in a row: few fill even small sets evenly then, so that their own translations stay
        timed, others = np.split(np.roll(lines, self.rng.integers(len(lines))), [PARAMS.targets])
        several = self.rng.permutation(others), self.rng.permutation(timed)
        params = CHASE if pages <= PARAMS.most_first else LONG  # long chases cost time, and what they miss costs more
        return translation_cycles(self.context, self.region, *several, params)

    def curve(self, low: float, high: float, count: int, draws: int) -> TlbRound:
        """Measure the translation's cycles at `count` numbers of pages from `low` to `high`, means of so many draws."""
        pages = np.unique(np.geomspace(low, min(high, self.most), count).round())
        cycles = np.array([np.mean([self.miss(int(each)) for _ in range(draws)]) for each in pages])
        finite = np.isfinite(cycles)
        return TlbRound(pages=pages[finite], cycles=cycles[finite])

    def round(self) -> TlbRound:
        """Costs up to all pages, each the middle one of three neighbours, more about the steps; and the entries of the
        first TLB."""
        count = int(np.log(self.most / PARAMS.least) / np.log(PARAMS.ratio)) + 1
        found = self.curve(PARAMS.least, self.most, count, 1)
        found = msgspec.structs.replace(found, cycles=ndimage.median_filter(found.cycles, 3, mode="nearest"))
        for step in filter(None, found.levels()):
            low, high = step.risen[0] / PARAMS.beyond, step.risen[2] * PARAMS.beyond
            dense, far = self.curve(low, high, PARAMS.dense, PARAMS.draws), (found.pages < low) | (found.pages > high)
            pages, cycles = np.append(found.pages[far], dense.pages), np.append(found.cycles[far], dense.cycles)
            found = TlbRound(pages=np.sort(pages), cycles=cycles[np.argsort(pages)])
        first, _ = found.levels()
        if first is None or first.risen[2] > PARAMS.most_first:
            return found
        low, high = 1, int(PARAMS.hit[0] * first.risen[2])
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(middle, PARAMS.rise * first.behind) else (low, middle)
        return msgspec.structs.replace(found, counted=low)


def tlb_pages(context: Context, page_bytes: int = SMALL_PAGE) -> TlbPages | None:
    """Pages of one size, None where memory is short. Where a hypervisor splinters large pages, each of them takes an
    entry of a small one."""
    wanted = min(PARAMS.large_bytes, int(PARAMS.memory * context.machine.facts.memory_bytes))
    wanted = min(wanted, PARAMS.most * page_bytes + PARAMS.align_bytes) // page_bytes * page_bytes
    if wanted < 2 * PARAMS.least * page_bytes + PARAMS.align_bytes:
        return None
    return TlbPages(context, context.exact_pages(wanted, page_bytes, populate=False))


def measure_tlbs(pages: TlbPages | None) -> TlbRound:
    """One round; nothing is seen without pages."""
    return pages.round() if pages else TlbRound(pages=np.zeros(0), cycles=np.zeros(0))


# -- what follows -----------------------------------------------------------------------------------------------------


def tlb_findings(rounds: Sequence[TlbRound], large: Sequence[TlbRound]) -> Iterator[Finding]:
    """Of all rounds; `large` are those of large pages, none where the machine has no such pages."""
    yield from _of_pages("4k", rounds, rounds)
    if large:
        yield from _of_pages("2m", large, rounds)
    for name, unit in (
        ("tlb.l1.pages_per_entry.4k", "pages"),
        ("tlb.l2.pages_per_entry.4k", "pages"),
        ("tlb.l1.store_entries.4k", "entries"),
        ("tlb.l1.store_entries.2m", "entries"),
        ("tlb.walk_cache.entries", "entries"),
        ("tlb.walk_cache.miss_penalty", "cycles"),
    ):
        yield decide.unavailable(name, unit, "not measured since 0.2")


Seen = Sequence[tuple[Step, TlbRound]]
"""Steps of one TLB, and the rounds that saw them."""


def _of_pages(name: str, rounds: Sequence[TlbRound], small: Sequence[TlbRound]) -> Iterator[Finding]:
    """Both TLBs of pages of one size."""
    reach, costs = int(max(each.pages.max(initial=0) for each in rounds)), [each.misses() for each in rounds]
    for level in (0, 1):
        seen = [(step, each) for each in rounds if (step := each.levels()[level])]
        if len(seen) < min(PARAMS.seen, len(rounds)) and (step := pooled(rounds).levels()[level]):
            seen = [(step, pooled(rounds))] * PARAMS.seen
        entries, penalty = (f"tlb.l{level + 1}.{what}.{name}" for what in ("entries", "miss_penalty"))
        if seen and len(seen) >= min(PARAMS.seen, len(rounds)):
            cycles = quantile_of_rounds([each[level] for each in costs], MIDDLE)  # a difference: both were disturbed
            yield _entries(entries, seen, level)
            cycles = cycles._replace(low=max(cycles.low, 0.0))
            miss = decide.measured(penalty, cycles, "cycles", METHOD, f"tlb_{name}")
            yield decide.as_precise(miss, PARAMS.precise * cycles.value)
            continue
        reason = f"no step up to {reach} pages"
        end = float(
            np.median([np.median(each.cycles[-PARAMS.last :]) for each in rounds if len(each.cycles)] or np.nan)
        )
        hit = float(np.median([each[0] for each in costs]))
        yield (
            _without_second(entries, (hit, end, reach), small)
            if level
            else decide.unresolved(entries, "entries", reason)
        )
        yield decide.unresolved(penalty, "cycles", reason, METHOD)


def _entries(parameter: str, seen: Seen, level: int) -> Finding:
    """How many entries there are: as many pages as fit, where a sharp step begins there; or those of the only table
    that has such a step; else a bound, or about half way up the step."""
    counted = None if level else _counted(seen)
    if counted is not None and _is_table(counted, seen):
        return decide.chosen(parameter, counted, "entries", COUNTED)
    low, middle, high = np.median([step.risen for step, _ in seen], axis=0).tolist()
    begins, halves, ends = np.array([step.risen for step, _ in seen]).T
    sharp = PARAMS.least < low and high < PARAMS.steep * low
    if halves.max() > (PARAMS.blurred if level and not sharp else PARAMS.agree) * halves.min():
        reason = f"rounds saw half of the step at {halves.min():.0f} to {halves.max():.0f} pages: others take entries"
        bound = counted or int(np.quantile(begins, LATENCY) / PARAMS.early)
        return decide.within(decide.at_least(parameter, bound, "entries", reason, METHOD), bound, float(ends.max()))
    entries, sure = entries_of((low, middle, high), float(np.std(np.log(halves))))
    # a table that replaces at random loses some entries from the count on, and its step is no sharp one of more
    sharp_one = sharp and (counted is None or entries <= PARAMS.agree * counted)
    if sharp_one and sure >= STEPS.sure and oddness(np.array([entries]))[0] <= PARAMS.most_odd:
        return decide.chosen(parameter, entries, "entries", METHOD)
    if counted is not None:
        return decide.at_least(parameter, min(counted, int(low)), "entries", "sets fill up one by one", COUNTED)
    if not level or sharp:  # sets that fill unevenly, and those that replace at random, end late
        reason = f"half of the step has risen at {middle:.0f} pages, of {low:.0f} to {high:.0f}, and no table ends so"
        return decide.at_least(parameter, int(middle / PARAMS.latest), "entries", reason, METHOD)
    blurred = f"{METHOD}; a quarter, half and three quarters up a step that is not sharp; the next table as built"
    middle = float(np.quantile(halves, RATE))  # others take entries
    near = [odd << power for odd in (1, 3) for power in range(4, 14)]  # tables as they are built
    value = min(near, key=lambda each: abs(np.log(each / middle)))
    return decide.measured(parameter, Interval(value, min(low, value), max(high, value)), "entries", blurred)


def _counted(seen: Seen) -> int | None:
    """The most entries that two rounds counted, as what else runs takes some and gives none; of the two counts the one
    that is likelier a table's."""
    counts = sorted((each.counted for _, each in seen if each.counted), reverse=True)
    for most in counts:
        alike = [count for count in counts if PARAMS.counts * most <= count <= most]
        if len(alike) >= min(2, len(seen)):
            return int(min(alike, key=lambda count: oddness(np.array([count]))[0]))
    return None


def _is_table(counted: int, seen: Seen) -> bool:
    """Whether there are such tables, and a round that counted so many saw a sharp step begin there."""
    risen = [step.risen for step, each in seen if (each.counted or 0) >= PARAMS.counts * counted]
    sharp = any(PARAMS.off * counted < low and half < PARAMS.sharp * counted for low, half, _ in risen)
    return bool(sharp and oddness(np.array([counted]))[0] <= PARAMS.odd)


def _without_second(parameter: str, own: tuple[float, float, int], small: Sequence[TlbRound]) -> Finding:
    """Where one step shows, cycles of a miss, of one among the most pages, and how many those are: a miss costs a page
    walk if there is no second TLB; how much that is, small pages show."""
    (miss, end, reach), (hit, walk) = own, np.median([each.misses() for each in small], axis=0).tolist()
    reason = f"no second step up to {reach} pages"
    if miss > walk - STEPS.least_cycles:
        return decide.absent(parameter, 0, "entries", METHOD)
    if max(miss, end) < hit + STEPS.least_cycles:
        return decide.at_least(parameter, reach, "entries", reason, METHOD)
    return decide.unresolved(parameter, "entries", f"{reason}; it holds more, or there is none", METHOD)


def pooled(rounds: Sequence[TlbRound]) -> TlbRound:
    """The median of rounds at each number of pages: what disturbs each of them hides a step of all."""
    pages = rounds[0].pages
    cycles = [np.interp(np.log(pages), np.log(each.pages), each.cycles) for each in rounds if len(each.pages)]
    return TlbRound(pages=pages, cycles=np.median(cycles, axis=0) if cycles else pages)


def tlb_evidence(rounds: Sequence[TlbRound], large: Sequence[TlbRound]) -> dict[str, Any]:
    """The curves and counts of all rounds."""
    every = {"tlb_4k": rounds, "tlb_2m": large}
    return {name: [msgspec.to_builtins(each, enc_hook=np.ndarray.tolist) for each in every[name]] for name in every}
