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
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from setebench.experiments.chases import ChaseParams, Lines, settled_cycles, translation_cycles
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats import decide
from setebench.stats.estimate import Interval
from setebench.stats.pairs import Numbers
from setebench.stats.rounds import LATENCY, commonest, quantile_of_rounds
from setebench.stats.steps import Risen, Step, StepParams, entries_of, oddness, steps

SMALL_PAGE, HUGE_PAGE = 4096, 2 << 20
"""Bytes of x86-64's pages that systems use for data (AMD64 Architecture Programmer's Manual 2, 5.3)."""

METHOD = "loads from few pages after others were used, and once more"
COUNTED = "chases round and round over lines on pages of their own, and packed"
GONE = "not measured since 0.2"
RANDOM, ADJACENT = 0, 1


@dataclass(frozen=True, kw_only=True)
class TlbParams:
    """How TLBs are looked for."""

    most: int = 6144  # pages at most; the largest second TLB known has 4,096 entries
    least: int = 12  # pages at least; fewer than any TLB has
    octave: int = 4  # numbers of pages in a ratio of two; fewer miss a plateau between two steps, more cost time
    closer: float = 0.03  # numbers are put between two whose costs differ, down to this ratio
    rising: float = 0.12  # costs differ that lie so much of the greatest apart
    passes: int = 2  # times that numbers are put between
    strides: tuple[int, ...] = (17, 16)  # pages from one to the next of a layout: none share an entry, up to 16 a group
    align_bytes: int = 1 << 24  # of the first page: bits of page numbers that are hashed with lower ones are the same
    slot_bytes: int = 128  # from one line to the next of a page: prefetched neighbours are of no use to any chase
    rise: float = 0.03  # of the plateau: one page too many for a set of 4 ways is 5 misses in 129 loads; less is noise
    looks: int = 3  # at a number of pages before its cost counts as risen: a disturbance would have to come each time
    hits: int = 9  # numbers of pages between the two steps at which a miss in the first TLB is timed
    most_first: int = 320  # pages; first TLBs with more entries (160 are the most known) are not counted one by one
    beyond: tuple[float, float] = (1.3, 2.2)  # times the second step's end: pages among which walks are timed
    dearer: float = 0.05  # of a walk, among so many more pages: more means that the fewer did not miss each time
    targets: int = 8  # pages that are timed; the first TLB has at least twice as many entries
    draws: int = 3  # of pages that are timed, where these are few: a cache that replaces at random keeps some lines
    timed: float = 0.3  # of the first TLB's entries, pages that are timed behind its step: sets overflow one by one
    most_targets: int = 64  # the same at most
    between: tuple[float, float] = (0.7, 4.0)  # of the second step's begin, or times the first one's end if none shows
    kept: float = 1.2  # times the first step's end: more pages do not fit
    walk_cycles: float = 8.0  # of a walk at least, over a hit in the second TLB: pages that share entries cost less
    off: float = 0.2  # of the entries: others' pages between loads and what is timed make the step begin earlier
    sharp: float = 1.35  # times the entries, half of the step has risen at most, if pages fill sets of any ways evenly
    late: float = 0.85  # of where the latest step of any layout begins: earlier ones hide entries
    steep: float = 1.25  # ratio of where three quarters and a quarter of a step have risen, if pages fill sets evenly
    latest: float = 1.4  # times the entries, where half of a step has risen if these are replaced at random: 2 ln 2
    odd: int = 15  # largest odd divisor of entries; numbers that unevenly filled sets leave have seldom a small one
    spread: float = 1.1  # ratio of where rounds see a step beyond which one that was counted otherwise is a bound
    large_bytes: int = 1 << 30  # of large pages at most; all of them get real memory
    large_fraction: float = 0.125  # of the memory on offer


PARAMS = TlbParams()
CHASE, STEPS = ChaseParams(samples=16), StepParams()


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Cycles that a load costs more on a page of its own, by number of pages that are used in turn, shape (n,) each, of
    pages `stride` apart; `first`: how many pages fit without a cost, None where that was not seen."""

    stride: int
    pages: Numbers
    cycles: Numbers
    first: int | None = None

    def steps(self) -> list[Step]:
        """One for each TLB."""
        return steps(self.pages, self.cycles, STEPS)


class TlbRound(msgspec.Struct, frozen=True, kw_only=True):
    """What one round saw: a curve of each layout, none where nothing could be asked, and by how many cycles a miss in
    the first TLB and one in both take longer than a hit in the first, NaN where no such step shows."""

    curves: tuple[Curve, ...] = ()
    hit: float = float("nan")
    walk: float = float("nan")


class _Pages:
    """Memory of one round: costs of chases over some of its pages."""

    def __init__(self, context: Context, region: Region, page_bytes: int) -> None:
        self.context, self.region, self.page_bytes = context, region, page_bytes
        self.rng = context.fresh_rng()
        self.stride = max(PARAMS.strides) if page_bytes == SMALL_PAGE else ADJACENT
        self.slots, self.begin = page_bytes // PARAMS.slot_bytes, region.address
        if page_bytes == SMALL_PAGE:  # else sets that are hashed are not filled evenly
            self.begin = -(-region.address // PARAMS.align_bytes) * PARAMS.align_bytes
        self.pages = (region.address + region.size - self.begin) // page_bytes
        self.most = self.pages // self.stride

    def lines(self, pages: int, stride: int) -> Lines:
        """One of each page, evenly over the sets of caches that are chosen by the lowest bits of addresses."""
        number = np.arange(pages, dtype=np.int64)
        slot = (number + number // 32 if self.page_bytes == SMALL_PAGE else number * 67) % self.slots
        page = number * stride
        if stride == RANDOM:
            units = self.rng.permutation(self.most)[:pages]
            page = units * self.stride + self.rng.integers(min(PARAMS.strides), size=pages)
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

    def miss(self, pages: int, stride: int, targets: int) -> float:
        """Cycles that translations of some of so many pages take once all others were used."""
        lines = self.lines(max(pages, 2 * targets), stride)
        chosen = np.zeros(len(lines), dtype=np.bool_)
        if targets > PARAMS.targets:
            chosen[self.rng.choice(len(lines), targets, replace=False)] = True
        else:  # in a row few fill even small sets evenly, so that their own translations stay
            begin = self.rng.integers(len(lines) - targets + 1)
            chosen[begin : begin + targets] = True
        others, timed = (self.rng.permutation(lines[which]) for which in (~chosen, chosen))
        return translation_cycles(self.context, self.region, others, timed, CHASE)

    def curve(self, stride: int) -> Curve:
        """Costs up to all pages, with more numbers where they rise; more pages are timed behind the first step."""
        octaves = np.log2(self.most / PARAMS.least)
        numbers = _between(PARAMS.least, self.most, int(octaves * PARAMS.octave) + 1)
        known, targets = dict[int, float](), PARAMS.targets
        for again in range(PARAMS.passes + 1):
            for pages in numbers:
                few = pages <= PARAMS.most_first
                if not few and not again and (found := _curve(stride, known).steps()):
                    targets = _targets(found[0])
                timed = PARAMS.targets if few else targets
                draws = max(1, PARAMS.draws * PARAMS.targets // timed)
                cycles = float(np.mean([self.miss(pages, stride, timed) for _ in range(draws)]))
                if np.isfinite(cycles):
                    known[pages] = cycles
            at, rising = sorted(known), PARAMS.rising * max(known.values(), default=0.0)
            numbers = [
                round((low * high) ** 0.5)
                for low, high in pairwise(at)
                if abs(known[high] - known[low]) > rising and high > (1 + PARAMS.closer) * low + 1
            ]
        return self.counted(_curve(stride, known))

    def counted(self, curve: Curve) -> Curve:
        """The curve with the number of pages that fit into the first TLB."""
        found = curve.steps()
        if not found or found[0].risen[2] > PARAMS.most_first or curve.stride == RANDOM:
            return curve
        low, high = 1, int(PARAMS.kept * found[0].risen[2])
        while high - low > 1:
            middle = (low + high) // 2
            fits = self.fits(middle, curve.stride, PARAMS.rise * found[0].behind)
            low, high = (middle, high) if fits else (low, middle)
        return msgspec.structs.replace(curve, first=low)

    def misses(self, curves: Sequence[Curve]) -> tuple[float, float]:
        """Cycles of a miss in the first TLB, and of one in both, its page walk's upper levels cached, NaN where there
        is no such step. Neighbouring pages need few upper levels; but where these share an entry, they must lie further
        apart. Soon behind the step, as tables of further pages leave the caches; but behind twice as many pages where
        these still cost less, as groups of them fill sets."""
        first, second = levels(curves)
        if first is None:
            return float("nan"), float("nan")
        low, targets = PARAMS.kept * first.risen[2], PARAMS.targets
        high = PARAMS.between[0] * second.risen[0] if second else PARAMS.between[1] * low
        numbers = np.geomspace((low * max(low, high)) ** 0.5, max(low, high), PARAMS.hits).tolist()
        hit = float(np.median([self.miss(min(int(each), self.most), self.stride, targets) for each in numbers]))
        if second is None:
            return hit, float("nan")
        near, far = (int(min(times * second.risen[2], self.pages // 8)) for times in PARAMS.beyond)
        limit = hit + min(PARAMS.walk_cycles, (second.behind - second.before) / 2)
        for stride in (1, 2, 4, 8):
            cycles, fewer = (
                float(np.median([self.miss(pages, stride, targets) for _ in range(PARAMS.looks)]))
                for pages in (far, near)
            )
            if cycles > limit:
                return hit, fewer if cycles <= (1 + PARAMS.dearer) * fewer else cycles
        return hit, self.miss(near, min(PARAMS.strides), targets)


def _targets(first: Step) -> int:
    """How many pages are timed behind a first TLB whose step is known."""
    return int(np.clip(PARAMS.timed * first.risen[0], PARAMS.targets, PARAMS.most_targets))


def _curve(stride: int, known: dict[int, float]) -> Curve:
    pages = np.array(sorted(known), dtype=np.float64)
    return Curve(stride=stride, pages=pages, cycles=np.array([known[int(each)] for each in pages]))


def _between(low: int, high: int, count: int) -> list[int]:
    return sorted({round(float(each)) for each in np.geomspace(low, high, count)})


def measure_tlbs(context: Context) -> TlbRound:
    """One round for small pages, in memory of its own."""
    room = context.machine.facts.memory_bytes // (2 * max(PARAMS.strides) * SMALL_PAGE)
    most = min(PARAMS.most, room)
    size = most * max(PARAMS.strides) * SMALL_PAGE + PARAMS.align_bytes
    region = context.machine.allocate(size, SMALL_PAGE, populate=False)
    try:
        pages = _Pages(context, region, SMALL_PAGE)
        curves = tuple(pages.curve(stride) for stride in (*PARAMS.strides, RANDOM))
        hit, walk = pages.misses(curves)
        return TlbRound(curves=curves, hit=hit, walk=walk)
    finally:
        context.machine.release(region)


def measure_large(context: Context, small: TlbRound) -> TlbRound | None:
    """The same round for large pages; None where their 4 KiB parts cost what as many small pages do, as a hypervisor
    splinters them. Nothing is asked where no first TLB for small pages was seen to compare with, or memory is short."""
    first, _ = levels(small.curves)
    wanted = min(PARAMS.large_bytes, int(PARAMS.large_fraction * context.machine.facts.memory_bytes))
    if first is None or wanted < 2 * PARAMS.least * HUGE_PAGE:
        return TlbRound()
    region = context.machine.allocate(wanted // HUGE_PAGE * HUGE_PAGE, HUGE_PAGE, populate=False)
    try:
        parts = _Pages(context, region, SMALL_PAGE).miss(int(1.2 * first.risen[2]), max(PARAMS.strides), PARAMS.targets)
        if parts > first.behind / 2:
            return None
        pages = _Pages(context, region, HUGE_PAGE)
        curve = pages.curve(ADJACENT)
        hit, walk = pages.misses((curve,))
        return TlbRound(curves=(curve,), hit=hit, walk=walk)
    finally:
        context.machine.release(region)


# -- what follows -----------------------------------------------------------------------------------------------------


def tlb_findings(rounds: Sequence[TlbRound], large: Sequence[TlbRound | None]) -> Iterator[Finding]:
    """Of all rounds; `large` are those of large pages, none where the machine has no such pages."""
    yield from _both(rounds, "4k", rounds)
    if large:
        whole = [each for each in large if each is not None]
        if 2 * len(whole) > len(large):
            yield from _both(whole, "2m", rounds)
        else:
            yield from _both(rounds, "2m", rounds)
    for name, unit in (
        ("tlb.l1.pages_per_entry.4k", "pages"),
        ("tlb.l2.pages_per_entry.4k", "pages"),
        ("tlb.l1.store_entries.4k", "entries"),
        ("tlb.l1.store_entries.2m", "entries"),
        ("tlb.walk_cache.entries", "entries"),
        ("tlb.walk_cache.miss_penalty", "cycles"),
    ):
        yield decide.unavailable(name, unit, GONE)


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


def _of_rounds(rounds: Sequence[TlbRound], level: int, scattered: bool = False) -> Risen | None:
    """Where the step of a level has risen in half of the rounds at least, the middle of those; None where it is not
    seen. If `scattered`, where pages lie at random."""
    curves = [[curve for curve in each.curves if not scattered or curve.stride == RANDOM] for each in rounds]
    seen = [step.risen for each in curves if (step := levels(each)[level]) is not None]
    if not seen or 2 * len(seen) < len(rounds):
        return None
    low, middle, high = np.median(np.array(seen), axis=0).tolist()
    return low, middle, high


def _spread(rounds: Sequence[TlbRound], level: int) -> float:
    """The ratio of the largest to the smallest number of pages at which half of a level's step has risen, of rounds."""
    seen = [step.risen[1] for each in rounds if (step := levels(each.curves)[level]) is not None]
    return max(seen) / min(seen)


def _both(rounds: Sequence[TlbRound], name: str, small: Sequence[TlbRound]) -> Iterator[Finding]:
    """Both TLBs of pages of one size."""
    reach = int(max((curve.pages[-1] for each in rounds for curve in each.curves if len(curve.pages)), default=0))
    first, second = (_of_rounds(rounds, level) for level in (0, 1))
    for level, found in (("l1", first), ("l2", first or second)):
        if found is None:
            reason = f"no step up to {PARAMS.most_first if second else reach} pages"
            yield decide.unresolved(f"tlb.{level}.entries.{name}", "entries", reason, METHOD)
            yield decide.unresolved(f"tlb.{level}.miss_penalty.{name}", "cycles", reason, METHOD)
    if first is not None:
        yield from _first(rounds, name)
    if second is not None:
        yield _entries(f"tlb.l2.entries.{name}", rounds, 1, None)
        walk = quantile_of_rounds([each.walk for each in rounds], LATENCY)
        yield decide.measured(f"tlb.l2.miss_penalty.{name}", walk, "cycles", METHOD, f"tlb_{name}")
    elif first is not None:
        reason = f"no second step up to {reach} pages"
        hit = quantile_of_rounds([each.hit for each in rounds], LATENCY).value
        yield _without_second(f"tlb.l2.entries.{name}", (hit, reach), small, reason)
        yield decide.unresolved(f"tlb.l2.miss_penalty.{name}", "cycles", reason, METHOD)


def _first(rounds: Sequence[TlbRound], name: str) -> Iterator[Finding]:
    """Entries of the first TLB, and what a miss costs."""
    counts = [max(known) for each in rounds if (known := [c.first for c in each.curves if c.first is not None])]
    yield _entries(f"tlb.l1.entries.{name}", rounds, 0, commonest(counts) if counts else None)
    penalty = quantile_of_rounds([each.hit for each in rounds], LATENCY)
    yield decide.measured(f"tlb.l1.miss_penalty.{name}", penalty, "cycles", METHOD, f"tlb_{name}")


def _entries(parameter: str, rounds: Sequence[TlbRound], level: int, counted: int | None) -> Finding:
    """How many entries there are: as many pages as fit, where a sharp step begins there; or those of the only table
    that has such a step, sharp, or of pages at random; or about half way up the step."""
    risen = _of_rounds(rounds, level)
    assert risen is not None  # else there is no finding
    low, middle, high = risen
    even = counted is not None and oddness(np.array([counted]))[0] <= PARAMS.odd
    if counted is not None and even and (1 - PARAMS.off) * counted < low and middle < PARAMS.sharp * counted:
        return decide.chosen(parameter, counted, "entries", COUNTED)
    scattered = _of_rounds(rounds, level, scattered=True)
    for seen, even in ((risen, True), (scattered, False)):
        if seen is not None and (not even or high < PARAMS.steep * low):
            entries, sure = entries_of(seen, even, STEPS)
            if sure >= STEPS.sure:
                if counted not in (None, entries) and _spread(rounds, level) > PARAMS.spread:
                    reason = f"rounds differ, and {counted} were counted: what else runs takes entries"
                    return decide.at_least(parameter, min(counted or entries, entries), "entries", reason, METHOD)
                return decide.chosen(parameter, entries, "entries", METHOD)
    if counted is not None:
        return decide.at_least(parameter, min(counted, int(low)), "entries", "sets fill up one by one", COUNTED)
    if not level or high < PARAMS.steep * low:  # sets that fill unevenly, and those that replace at random, end late
        reason = f"half of the step has risen at {middle:.0f} pages, of {low:.0f} to {high:.0f}, and no table ends so"
        return decide.at_least(parameter, int(middle / PARAMS.latest), "entries", reason, METHOD)
    blurred = f"{METHOD}; a quarter, half and three quarters up a step that is not sharp"
    return decide.measured(parameter, Interval(round(middle), low, high), "entries", blurred)


def _without_second(parameter: str, own: tuple[float, int], small: Sequence[TlbRound], reason: str) -> Finding:
    """Where one step shows: a miss costs a page walk if there is no second TLB; how much that is, small pages show."""
    hit, walk = (float(np.median([getattr(each, of) for each in small])) for of in ("hit", "walk"))
    if own[0] > walk - STEPS.least_cycles:
        return decide.absent(parameter, 0, "entries", METHOD)
    if own[0] < hit + STEPS.least_cycles:
        return decide.at_least(parameter, own[1], "entries", reason, METHOD)
    return decide.unresolved(parameter, "entries", f"{reason}; it holds more, or there is none", METHOD)


def tlb_evidence(rounds: Sequence[TlbRound], large: Sequence[TlbRound | None]) -> dict[str, Any]:
    """The curves of all rounds, medians by number of pages."""
    found = {}
    for name, several in (("tlb_4k", rounds), ("tlb_2m", [each for each in large if each is not None])):
        curves = [each.curves[0] for each in several]
        if curves:
            pages, cycles = (np.concatenate([getattr(each, of) for each in curves]) for of in ("pages", "cycles"))
            numbers = np.unique(pages)
            costs = [round(float(np.median(cycles[pages == number])), 3) for number in numbers]
            found[name] = {"pages": numbers.astype(int).tolist(), "cycles": costs}
    return found
