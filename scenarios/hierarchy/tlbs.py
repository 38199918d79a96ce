"""The data TLBs of small and of large pages: entries, and what a miss costs.

A few pages are chased through after some others were used, and right afterwards once more by other lines: these are as
far away, but are translated, so the difference is translation and nothing else. Its curve over the number of pages has
a step for each TLB (`stats.steps`). Sharp steps need sets that are filled evenly, so pages lie in three layouts: an odd
number of pages apart, for sets that are chosen by bits of the page number; sixteen pages apart, for hashed ones; and at
random. No two of any share an entry. The first TLB is counted to the entry: where one page too many is used in turn,
its set loses all it holds each time, and a chase costs more than one through as many lines on few pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from scipy import ndimage

from setebench.experiments.chases import ChaseParams, Lines, settled_cycles, translation_cycles
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats import decide
from setebench.stats.estimate import Interval
from setebench.stats.pairs import Numbers
from setebench.stats.rounds import LATENCY, quantile_of_rounds
from setebench.stats.steps import Step, StepParams, entries_of, oddness, steps

SMALL_PAGE, HUGE_PAGE = 4096, 2 << 20
"""Bytes of x86-64's pages that systems use for data (AMD64 Architecture Programmer's Manual 2, 5.3)."""

METHOD = "loads from few pages after others were used, and once more"
COUNTED = "chases round and round over lines on pages of their own, and packed"
RANDOM, ADJACENT, STRIDES = 0, 1, (17, 16)
"""Pages from one to the next of a layout; those of small pages share no entry, which hold up to 16 as a group."""


@dataclass(frozen=True, kw_only=True)
class TlbParams:
    """How TLBs are looked for."""

    most: int = 6144  # pages at most; the largest second TLB known has 4,096 entries
    least: int = 12  # pages at least; fewer than any TLB has
    ratio: float = 1.06  # of a number of pages to the one before: steps are known as well, more numbers cost time
    align_bytes: int = 1 << 24  # of the first page: bits of page numbers that are hashed with lower ones are the same
    slot_bytes: int = 128  # from one line to the next of a page: prefetched neighbours are of no use to any chase
    rise: float = 0.03  # of the plateau: one page too many for a set of 4 ways is 5 misses in 129 loads; less is noise
    looks: int = 3  # at a number of pages before its cost counts as risen: a disturbance would have to come each time
    most_first: int = 320  # pages; first TLBs with more entries (160 are the most known) are not counted one by one
    beyond: tuple[float, float] = (1.3, 2.2)  # times the second step's end: pages among which walks are timed
    dearer: float = 1.05  # times a walk, among so many more pages: then the fewer did not miss each time
    targets: int = 8  # pages that are timed; the first TLB has at least twice as many entries
    between: tuple[float, float] = (0.7, 4.0)  # of the second step's begin, or times the first one's end if none shows
    beyond_first: float = 1.2  # times the first step's end: more pages do not fit
    walk_cycles: float = 8.0  # of a walk at least, over a hit in the second TLB: pages that share entries cost less
    off: float = 0.8  # of the entries: others' pages between loads and what is timed make the step begin earlier
    sharp: float = 1.35  # times the entries, half of the step has risen at most, if pages fill sets of any ways evenly
    late: float = 0.85  # of where the latest step of any layout begins: earlier ones hide entries
    steep: float = 1.25  # ratio of where three quarters and a quarter of a step have risen, if pages fill sets evenly
    latest: float = 1.4  # times the entries, where half of a step has risen if these are replaced at random: 2 ln 2
    odd: int = 15  # largest odd divisor of entries; numbers that unevenly filled sets leave have seldom a small one
    counts: float = 0.98  # of the most that a round counted: so many were counted where nothing else took entries
    agree: float = 1.1  # ratio of rounds' steps up to which the same table was seen: what else runs takes entries
    large_bytes: int = 1 << 30  # of large pages at most; all of them get real memory
    large_fraction: float = 0.125  # of the memory on offer


PARAMS = TlbParams()
CHASE, STEPS = ChaseParams(samples=16), StepParams()


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Cycles that a load costs more on a page of its own, by number of pages that are used in turn, shape (n,) each, of
    pages `stride` apart."""

    stride: int
    pages: Numbers
    cycles: Numbers

    def steps(self) -> list[Step]:
        """One for each TLB."""
        return steps(self.pages, self.cycles, STEPS)


class TlbRound(msgspec.Struct, frozen=True, kw_only=True):
    """What one round saw: a curve of each layout, none where nothing could be measured; how many pages fit into the
    first TLB, None where that was not seen; and by how many cycles a miss in the first TLB and one in both take longer
    than a hit in the first, NaN where no such step shows."""

    curves: tuple[Curve, ...] = ()
    counted: int | None = None
    hit: float = float("nan")
    walk: float = float("nan")


class _Pages:
    """Memory of one round: costs of chases over some of its pages."""

    def __init__(self, context: Context, region: Region, page_bytes: int) -> None:
        self.context, self.region, self.page_bytes = context, region, page_bytes
        self.rng = context.fresh_rng()
        small = page_bytes == SMALL_PAGE
        self.stride, align = (max(STRIDES), PARAMS.align_bytes) if small else (ADJACENT, page_bytes)
        self.slots, self.begin = page_bytes // PARAMS.slot_bytes, -(-region.address // align) * align
        self.pages = (region.address + region.size - self.begin) // page_bytes
        self.most = self.pages // self.stride

    def lines(self, pages: int, stride: int) -> Lines:
        """One of each page, evenly over the sets of caches that are chosen by the lowest bits of addresses."""
        number = np.arange(pages, dtype=np.int64)
        slot = (number + number // 32 if self.page_bytes == SMALL_PAGE else number * 67) % self.slots
        page = number * stride
        if stride == RANDOM:
            page = self.rng.permutation(self.most)[:pages] * self.stride + self.rng.integers(min(STRIDES), size=pages)
        return self.begin + page * self.page_bytes + slot * PARAMS.slot_bytes

    def few(self, count: int) -> Lines:
        """So many lines on as few pages as hold them, every other one of each; all pages in turn, as translations are
        used in turn by the lines on pages of their own."""
        page = self.rng.permutation(-(-count // self.slots))[:, None]
        slot = self.rng.permuted(np.tile(np.arange(self.slots), (len(page), 1)), axis=1)
        lines = page * self.stride * self.page_bytes + slot * PARAMS.slot_bytes
        found: Lines = self.begin + lines.T[(page * self.slots + slot < count).T]
        return found

    def fits(self, pages: int, stride: int, limit: float) -> bool:
        """Whether so many pages, used in turn, cost no more than as many lines on few pages, which do fit."""
        for _ in range(PARAMS.looks):
            lines = self.rng.permutation(self.lines(pages, stride)), self.few(pages)
            own, packed = (settled_cycles(self.context, self.region, each, CHASE) for each in lines)
            if own - packed <= limit:
                return True
        return False

    def miss(self, pages: int, stride: int) -> float:
        """Cycles that translations of some of so many pages take once all others were used."""
        lines = self.lines(max(pages, 2 * PARAMS.targets), stride)
        # in a row few fill even small sets evenly, so that their own translations stay
        timed, others = np.split(np.roll(lines, self.rng.integers(len(lines))), [PARAMS.targets])
        several = self.rng.permutation(others), self.rng.permutation(timed)
        return translation_cycles(self.context, self.region, *several, CHASE)

    def curve(self, stride: int) -> Curve:
        """Costs up to all pages, each the middle one of three neighbours."""
        count = int(np.log(self.most / PARAMS.least) / np.log(PARAMS.ratio)) + 1
        pages = np.unique(np.geomspace(PARAMS.least, self.most, count).round())
        cycles = np.array([self.miss(int(each), stride) for each in pages])
        pages, cycles = pages[np.isfinite(cycles)], cycles[np.isfinite(cycles)]
        return Curve(stride=stride, pages=pages, cycles=ndimage.median_filter(cycles, 3) if len(cycles) else cycles)

    def counted(self, curves: Sequence[Curve]) -> int | None:
        """The most pages of any layout that fit into the first TLB."""
        most = None
        for curve in curves:
            found = curve.steps()
            if curve.stride == RANDOM or not found or found[0].risen[2] > PARAMS.most_first:
                continue
            low, high = 1, int(PARAMS.beyond_first * found[0].risen[2])
            while high - low > 1:
                middle = (low + high) // 2
                fits = self.fits(middle, curve.stride, PARAMS.rise * found[0].behind)
                low, high = (middle, high) if fits else (low, middle)
            most = max(low, most or 0)
        return most

    def misses(self, curve: Curve, first: Step, second: Step | None) -> tuple[float, float]:
        """Cycles of a miss in the first TLB, and of one in both, its page walk's upper levels cached. Neighbouring
        pages need few upper levels; but where these share an entry, they must lie further apart. Soon behind the step,
        as tables of further pages leave the caches; but behind twice as many pages where these still cost less, as
        groups of them fill sets."""
        low = PARAMS.beyond_first * first.risen[2]
        high = max(low, PARAMS.between[0] * second.risen[0] if second else PARAMS.between[1] * low)
        hit = float(np.median(curve.cycles[(curve.pages >= (low * high) ** 0.5) & (curve.pages <= high)]))
        if second is None:
            return hit, float("nan")
        near, far = (int(min(times * second.risen[2], self.pages // 8)) for times in PARAMS.beyond)
        limit = hit + min(PARAMS.walk_cycles, (second.behind - second.before) / 2)
        for stride in (1, 2, 4, 8):
            cycles, fewer = (self.miss(pages, stride) for pages in (far, near))
            if cycles > limit:
                return hit, fewer if cycles <= PARAMS.dearer * fewer else cycles
        return hit, self.miss(near, min(STRIDES))

    def round(self, strides: Sequence[int]) -> TlbRound:
        """Curves of these layouts, and what follows their steps."""
        curves = tuple(self.curve(stride) for stride in strides)
        first, second = levels(curves)
        hit, walk = self.misses(curves[0], first, second) if first else (float("nan"), float("nan"))
        return TlbRound(curves=curves, counted=self.counted(curves), hit=hit, walk=walk)


def measure_tlbs(context: Context) -> TlbRound:
    """One round for small pages, in memory of its own."""
    group = max(STRIDES) * SMALL_PAGE
    size = min(PARAMS.most, context.machine.facts.memory_bytes // (2 * group)) * group + PARAMS.align_bytes
    region = context.allocate(size, SMALL_PAGE, populate=False)
    try:
        return _Pages(context, region, SMALL_PAGE).round((*STRIDES, RANDOM))
    finally:
        context.machine.release(region)


def measure_large(context: Context, small: TlbRound) -> TlbRound | None:
    """The same round for large pages; None where their 4 KiB parts cost what as many small pages do, as a hypervisor
    splinters them. Nothing is measured where no first TLB for small pages was seen to compare with, or memory is
    short."""
    first, _ = levels(small.curves)
    wanted = min(PARAMS.large_bytes, int(PARAMS.large_fraction * context.machine.facts.memory_bytes))
    if first is None or wanted < 2 * PARAMS.least * HUGE_PAGE:
        return TlbRound()
    region = context.allocate(wanted // HUGE_PAGE * HUGE_PAGE, HUGE_PAGE, populate=False)
    try:
        parts = _Pages(context, region, SMALL_PAGE).miss(int(PARAMS.beyond_first * first.risen[2]), max(STRIDES))
        return None if parts > first.behind / 2 else _Pages(context, region, HUGE_PAGE).round((ADJACENT,))
    finally:
        context.machine.release(region)


# -- what follows -----------------------------------------------------------------------------------------------------


def tlb_findings(rounds: Sequence[TlbRound], large: Sequence[TlbRound | None]) -> Iterator[Finding]:
    """Of all rounds; `large` are those of large pages, none where the machine has no such pages."""
    yield from _of_pages("4k", rounds, rounds)
    if large:
        whole = [each for each in large if each is not None]
        yield from _of_pages("2m", whole if 2 * len(whole) > len(large) else rounds, rounds)
    for name, unit in (
        ("tlb.l1.pages_per_entry.4k", "pages"),
        ("tlb.l2.pages_per_entry.4k", "pages"),
        ("tlb.l1.store_entries.4k", "entries"),
        ("tlb.l1.store_entries.2m", "entries"),
        ("tlb.walk_cache.entries", "entries"),
        ("tlb.walk_cache.miss_penalty", "cycles"),
    ):
        yield decide.unavailable(name, unit, "not measured since 0.2")


def levels(curves: Sequence[Curve]) -> tuple[Step | None, Step | None]:
    """The steps of the first and of the second TLB, where they are seen, of the layout that fills sets most evenly:
    others hide entries, and all of a first TLB of which they use too few sets."""
    even = [curve for curve in curves if curve.stride != RANDOM]
    every = [step for curve in even or curves for step in curve.steps()]
    first = min(every, key=lambda step: step.behind, default=None)
    if first is None:
        return None, None
    alike = first.behind + max(STEPS.least_cycles, STEPS.apart * first.behind)
    largest = _most_even([step for step in every if step.behind <= alike])
    if largest.risen[0] > PARAMS.most_first:  # no first TLB is as large, so its own step was missed
        return None, largest
    behind = [step for step in every if step.behind > alike and step.risen[0] > largest.risen[2]]
    return largest, _most_even(behind) if behind else None


def _most_even(several: Sequence[Step]) -> Step:
    """The sharpest step of those that begin late: if it began early, pages would use few of the sets."""
    late = PARAMS.late * max(step.risen[0] for step in several)
    return min((step for step in several if step.risen[0] >= late), key=lambda step: step.risen[2] / step.risen[0])


def _of_pages(name: str, rounds: Sequence[TlbRound], small: Sequence[TlbRound]) -> Iterator[Finding]:
    """Both TLBs of pages of one size."""
    reach = int(max((curve.pages[-1] for each in rounds for curve in each.curves if len(curve.pages)), default=0))
    for level, cost in enumerate(("hit", "walk")):
        seen = [(step, each) for each in rounds if (step := levels(each.curves)[level])]
        entries, penalty = (f"tlb.l{level + 1}.{what}.{name}" for what in ("entries", "miss_penalty"))
        costs = quantile_of_rounds([getattr(each, cost) for each in rounds], LATENCY)
        if seen and 2 * len(seen) >= len(rounds):
            yield _entries(entries, seen, level)
            yield decide.measured(penalty, costs, "cycles", METHOD, f"tlb_{name}")
            continue
        reason = f"no step up to {reach} pages"
        hit = float(np.median([each.hit for each in rounds]))
        yield _without_second(entries, (hit, reach), small) if level else decide.unresolved(entries, "entries", reason)
        yield decide.unresolved(penalty, "cycles", reason, METHOD)


Seen = Sequence[tuple[Step, TlbRound]]
"""Steps of one TLB, and the rounds that saw them."""


def _entries(parameter: str, seen: Seen, level: int) -> Finding:
    """How many entries there are: as many pages as fit, where a sharp step begins there; or those of the only table
    that has such a step, sharp, or of pages at random; else a bound, or about half way up the step."""
    counted = None if level else _counted(seen)
    if counted is not None and _is_table(counted, seen):
        return decide.chosen(parameter, counted, "entries", COUNTED)
    even = [step for step, _ in seen]
    random = [levels([curve for curve in each.curves if curve.stride == RANDOM])[level] for _, each in seen]
    scattered = [step for step in random if step]
    low, middle, high = _middle(even)
    sharp = high < PARAMS.steep * low
    for several, evenly in ((even, True), (scattered, False)):
        if (sharp or not evenly) and 2 * len(several) >= len(seen) and _agree(several):
            entries, sure = entries_of(_middle(several), evenly, STEPS)
            if sure >= STEPS.sure:
                return decide.chosen(parameter, entries, "entries", METHOD)
    if not _agree(even):
        begins, halves, ends = np.array([step.risen for step in even]).T
        reason = f"rounds saw half of the step at {halves.min():.0f} to {halves.max():.0f} pages: others take entries"
        bound = counted or int(np.quantile(begins, LATENCY))
        return decide.within(decide.at_least(parameter, bound, "entries", reason, METHOD), bound, float(ends.max()))
    if counted is not None:
        return decide.at_least(parameter, min(counted, int(low)), "entries", "sets fill up one by one", COUNTED)
    if not level or sharp:  # sets that fill unevenly, and those that replace at random, end late
        reason = f"half of the step has risen at {middle:.0f} pages, of {low:.0f} to {high:.0f}, and no table ends so"
        return decide.at_least(parameter, int(middle / PARAMS.latest), "entries", reason, METHOD)
    blurred = f"{METHOD}; a quarter, half and three quarters up a step that is not sharp"
    return decide.measured(parameter, Interval(round(middle), low, high), "entries", blurred)


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
    steps_ = [step.risen for step, each in seen if (each.counted or 0) >= PARAMS.counts * counted]
    sharp = any(PARAMS.off * counted < low and half < PARAMS.sharp * counted for low, half, _ in steps_)
    return bool(sharp and oddness(np.array([counted]))[0] <= PARAMS.odd)


def _middle(several: Sequence[Step]) -> tuple[float, float, float]:
    """Where a quarter, half and three quarters of a step have risen in the middle of its rounds."""
    low, middle, high = np.median([step.risen for step in several], axis=0).tolist()
    return low, middle, high


def _agree(several: Sequence[Step]) -> bool:
    """Whether all rounds saw half of a step at about the same number of pages."""
    halves = [step.risen[1] for step in several]
    return max(halves) <= PARAMS.agree * min(halves)


def _without_second(parameter: str, own: tuple[float, int], small: Sequence[TlbRound]) -> Finding:
    """Where one step shows: a miss costs a page walk if there is no second TLB; how much that is, small pages show."""
    hit, walk = (float(np.median([getattr(each, of) for each in small])) for of in ("hit", "walk"))
    reason = f"no second step up to {own[1]} pages"
    if own[0] > walk - STEPS.least_cycles:
        return decide.absent(parameter, 0, "entries", METHOD)
    if own[0] < hit + STEPS.least_cycles:
        return decide.at_least(parameter, own[1], "entries", reason, METHOD)
    return decide.unresolved(parameter, "entries", f"{reason}; it holds more, or there is none", METHOD)


def tlb_evidence(rounds: Sequence[TlbRound], large: Sequence[TlbRound | None]) -> dict[str, Any]:
    """The curves of all rounds, medians by number of pages."""
    found = {}
    for name, several in (("tlb_4k", rounds), ("tlb_2m", [each for each in large if each is not None])):
        curves = [each.curves[0] for each in several if each.curves]
        if curves:
            pages, cycles = (np.concatenate([getattr(each, of) for each in curves]) for of in ("pages", "cycles"))
            numbers = np.unique(pages)
            costs = [round(float(np.median(cycles[pages == number])), 3) for number in numbers]
            found[name] = {"pages": numbers.astype(int).tolist(), "cycles": costs}
    return found
