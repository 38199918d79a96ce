"""The data TLBs of 4 KiB and of 2 MiB pages: number of entries, and the penalty of a miss in core cycles.

A chase through one line on each of n pages loads their translations. Then a few of these pages are chased, and right
after them other lines of the same pages: these are as far away, but their translations are in the TLB, so the
difference is the cost of translation. Over n this cost has one step per TLB (`stats.steps`). The pages are neighbours,
so that their numbers fill all sets evenly, whether hashed or not; they were touched in random order first, so that no
two have neighbouring frames and share an entry. The first TLB's entries are counted exactly: with one page too many, a
cyclic chase over pages misses in one set at each access, and costs more than a chase over as many lines on few pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from scipy import ndimage

from setebench.experiments.chases import TURNS, ChaseParams, Lines, chase_cycles, translation_cycles
from setebench.machine import Region
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats import decide
from setebench.stats.estimate import Interval
from setebench.stats.pairs import Numbers
from setebench.stats.rounds import LATENCY, MIDDLE, RATE, quantile_of_rounds
from setebench.stats.steps import STEPS, Step, entries_of, oddness, steps

SMALL_PAGE, HUGE_PAGE = 4096, 2 << 20
"""Bytes of the page sizes that systems use for data on x86-64 (AMD64 Architecture Programmer's Manual 2, 5.3)."""

METHOD = "loads from few pages after others were used, and once more"
COUNTED = "chases round and round over lines on pages of their own, and packed"


@dataclass(frozen=True, kw_only=True)
class TlbParams:
    """Which numbers of pages are measured, how steps become entries and penalties, and when these are bounds."""

    most: int = 9728  # largest number of pages: the largest known TLB has 4,096 entries, and a plateau behind its step
    least: int = 12  # smallest number of pages; any TLB has more entries
    ratio: float = 1.06  # between successive numbers of pages: more of them cost time and locate steps no better
    dense: int = 16  # numbers of pages that are measured about each step, from a little before to a little behind it
    draws: tuple[int, int] = (4, 2)  # measurements of each of these numbers, few and many pages: the mean counts
    beyond: float = 1.08  # these numbers range from the step's begin over this to its end times this
    align_bytes: int = 1 << 24  # alignment of the first page: the higher bits that are hashed with lower ones are equal
    slot_bytes: int = 128  # distance of lines that may be used on a page: prefetched neighbours help no chase
    rise: float = 0.03  # share of the plateau: 1 page too many in a set of 4 ways is 5 misses in 129 loads; less: noise
    tries: int = 3  # chases that must all show a rise: a disturbance would have to come each time
    most_first: int = 320  # pages; larger first TLBs are not counted exactly (160 entries are the most known)
    targets: int = 8  # pages that are timed; the first TLB has at least twice as many entries
    hit: tuple[float, float] = (1.2, 0.7)  # first plateau: from the 1st step's end to the 2nd one's begin, times these
    alone: float = 4.0  # times the first step's end: where that plateau ends if there is no second step
    walk: tuple[float, float] = (1.1, 2.5)  # second plateau, times the 2nd step's end; then page tables leave caches
    off: float = 0.8  # earliest begin of a step, relative to the entries: the program's own pages take some
    sharp: float = 1.35  # latest half of a sharp step, relative to the entries, if pages fill sets of any ways evenly
    steep: float = 1.25  # largest ratio of where 3/4 and 1/4 of a sharp step have risen, if pages fill sets evenly
    shown: float = 0.7  # least height of a second step in its control, relative
    early: float = 1.15  # times the entries: where a quarter has risen if pages fill sets at random: -ln(3/4) times 4
    latest: float = 1.4  # times the entries: where half has risen if entries are replaced at random: 2 ln 2
    odd: int = 15  # largest odd divisor of a count: wrong counts, of unevenly filled sets, seldom have a small one
    most_odd: int = 5  # the same of entries inferred from a step: 14 of 16 ways are left if others take 2 of each set
    counts: float = 0.98  # counts above this share of the largest one agree with it
    seen: int = 2  # rounds that must show a step: others may be disturbed, and disturbances have no plateaus
    last: int = 5  # largest numbers of pages, whose median is the cost at the end of the curve
    agree: float = 1.1  # largest ratio of rounds' steps, if undisturbed: co-runners take entries
    bias: tuple[float, float] = (0.03, 0.002)  # systematic error of a penalty: cycles, and relative (the reference's)
    precise: float = 0.1  # largest distance to the nearer end of a measured penalty's interval, relative
    blurred: float = 1.4  # as `agree`, of steps that aren't sharp, as where a hypervisor's page tables are walked, too
    large_bytes: int = 1 << 30  # memory of 2 MiB pages at most, all of which is backed
    memory: float = 0.125  # largest share of the machine's memory


PARAMS = TlbParams()
CHASE, LONG = ChaseParams(samples=16), ChaseParams(samples=12)
CONTROL = ChaseParams(samples=2 * len(TURNS), turns=TURNS)


class TlbRound(msgspec.Struct, frozen=True, kw_only=True):
    """One round's curve: `cycles` that the translation of a page costs, by the number of `pages` that are used in turn,
    shape (n,) each; and how many pages fit into the first TLB (`counted`; None where its step wasn't seen)."""

    pages: Numbers
    cycles: Numbers
    counted: int | None = None

    def levels(self) -> tuple[Step | None, Step | None]:
        """Return the steps of the first and of the second TLB in this round's curve, None for one that doesn't show."""
        first, second, *_ = [*steps(self.pages, self.cycles), None, None]
        late = first is not None and first.risen[0] > PARAMS.most_first  # no first TLB is as large: its step was missed
        return (None, first) if late else (first, second)

    def misses(self) -> tuple[float, float]:
        """Return by how many cycles a miss in the first TLB, and in both, exceeds a hit; NaN where no step shows."""
        first, second = self.levels()
        if first is None:
            return float("nan"), float("nan")
        low = PARAMS.hit[0] * first.risen[2]
        high = max(low, PARAMS.hit[1] * second.risen[0] if second else PARAMS.alone * low)
        # lines of many pages fill a cache, and evict the line that is timed again sooner than the one timed first
        hit = max(first.behind, self._middle(low, high))
        if second is None:
            return hit, float("nan")
        low, high = (times * second.risen[2] for times in PARAMS.walk)
        return hit, self._middle(low, high) if (low + high) / 2 <= self.pages[-1] else second.behind

    def _middle(self, low: float, high: float) -> float:
        within = (self.pages >= low) & (self.pages <= high)
        return float(np.median(self.cycles[within])) if within.any() else -np.inf


class TlbPages:
    """Memory in pages of one size (`bytes`), of which chases use some in each round. `close` frees it."""

    def __init__(self, context: Context, region: Region) -> None:
        self.context, self.region, self.bytes, self.rng = context, region, region.page_size, context.fresh_rng()
        align = max(PARAMS.align_bytes, self.bytes)
        self.begin, self.slots = -(-region.address // align) * align, self.bytes // PARAMS.slot_bytes
        self.most = min(PARAMS.most, (region.address + region.size - self.begin) // self.bytes)
        self.ends: list[float] = []  # of the second step, in rounds that saw it
        context.machine.link(region, self.rng.permutation(self.lines(self.most)))

    def close(self) -> None:
        """Free the memory; no chase may follow."""
        self.context.machine.release(self.region)

    def lines(self, pages: int) -> Lines:
        """Return an address on each of `pages` pages, shape (pages,), evenly over sets chosen by low address bits."""
        number = np.arange(pages, dtype=np.int64)
        slot = (number + number // 32 if self.bytes == SMALL_PAGE else number * 67) % self.slots
        return self.begin + number * self.bytes + slot * PARAMS.slot_bytes

    def few(self, count: int) -> Lines:
        """Return `count` lines, shape (count,), packed on as few pages as they need, to compare with lines on a page
        each. In a page they are two lines apart; their order goes from page to page, so that here, too, each load needs
        another translation than the one before."""
        page = self.rng.permutation(-(-count // self.slots))[:, None]
        slot = self.rng.permuted(np.tile(np.arange(self.slots), (len(page), 1)), axis=1)
        lines = self.begin + page * self.bytes + slot * PARAMS.slot_bytes
        return np.asarray(lines.T[(page * self.slots + slot < count).T])

    def fits(self, pages: int, limit: float) -> bool:
        """Return whether `pages` pages fit into the TLB: a load costs at most `limit` cycles more than on few pages."""
        for _ in range(PARAMS.tries):
            lines = self.rng.permutation(self.lines(pages)), self.few(pages)
            own, packed = (chase_cycles(self.context, self.region, each, CHASE) for each in lines)
            if own - packed <= limit:
                return True
        return False

    def miss(self, pages: int, params: ChaseParams | None = None) -> float:
        """Return the cycles that the translation of a page costs after `pages` pages were used in turn."""
        lines = self.lines(max(pages, 2 * PARAMS.targets))
        if pages > PARAMS.most_first:  # at random, as sets overflow one by one
            lines = self.rng.permutation(lines)
        # else in order: then few pages fill even small sets evenly, and their translations stay
        timed, others = np.split(np.roll(lines, self.rng.integers(len(lines))), [PARAMS.targets])
        several = self.rng.permutation(others), self.rng.permutation(timed)
        usual = CHASE if pages <= PARAMS.most_first else LONG  # long chases cost time, but their misses cost more
        return translation_cycles(self.context, self.region, *several, params or usual)

    def _of_caches(self, step: Step) -> bool:
        """Return whether a second step doesn't show where prefetchers can't bring the lines that are timed second: then
        it is a cache's, from which the lines that are timed first come."""
        pages = min(int(PARAMS.walk[0] * step.risen[2]), self.most)
        seen = float(np.median([self.miss(pages, CONTROL) for _ in range(PARAMS.tries)])) - step.before
        return seen < PARAMS.shown * (step.behind - step.before)

    def curve(self, low: float, high: float, count: int, draws: int) -> TlbRound:
        """Measure a translation's cycles at `count` numbers of pages, `low` to `high`: means of `draws` samples."""
        pages = np.unique(np.geomspace(low, min(high, self.most), count).round())
        cycles = np.array([np.mean([self.miss(int(each)) for _ in range(draws)]) for each in pages])
        finite = np.isfinite(cycles)
        return TlbRound(pages=pages[finite], cycles=cycles[finite])

    def round(self) -> TlbRound:
        """Measure one round: the curve of cycles over numbers of pages, smoothed by the median of three neighbours and
        measured more densely about its steps, and the exact number of the first TLB's entries. If earlier rounds agree
        on the second step, the curve ends where the plateau behind that step is over (`PARAMS.walk`)."""
        alike = len(self.ends) >= PARAMS.seen and max(self.ends) <= PARAMS.blurred * min(self.ends)
        most = min(self.most, PARAMS.walk[1] * max(self.ends)) if alike else self.most
        found = self.curve(PARAMS.least, most, int(np.log(most / PARAMS.least) / np.log(PARAMS.ratio)) + 1, 1)
        found = msgspec.structs.replace(found, cycles=ndimage.median_filter(found.cycles, 3, mode="nearest"))
        others = list[Step]()  # of caches
        while (second := found.levels()[1]) and self._of_caches(second):
            others.append(second)
            found = _without(found, second)
        for step in filter(None, found.levels()):
            low, high = step.risen[0] / PARAMS.beyond, step.risen[2] * PARAMS.beyond
            dense = self.curve(low, high, PARAMS.dense, PARAMS.draws[bool(high > PARAMS.most_first)])
            for other in others:
                dense = _without(dense, other)
            far = (found.pages < low) | (found.pages > high)
            pages, cycles = np.append(found.pages[far], dense.pages), np.append(found.cycles[far], dense.cycles)
            found = TlbRound(pages=np.sort(pages), cycles=cycles[np.argsort(pages)])
        first, second = found.levels()
        self.ends += [second.risen[2]] if second else []
        if first is None or first.risen[2] > PARAMS.most_first:
            return found
        low, high = 1, int(PARAMS.hit[0] * first.risen[2])
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(middle, PARAMS.rise * first.behind) else (low, middle)
        return msgspec.structs.replace(found, counted=low)


def _without(curve: TlbRound, step: Step) -> TlbRound:
    """Return a curve less the height of one of its steps."""
    taken = np.where(curve.pages > step.risen[1], step.behind - step.before, 0.0)
    return msgspec.structs.replace(curve, cycles=curve.cycles - taken)


def tlb_pages(context: Context, page_bytes: int = SMALL_PAGE) -> TlbPages | None:
    """Allocate pages of `page_bytes`, or return None where memory is short. A large page that the hypervisor maps in
    small pieces takes an entry for each piece."""
    wanted = min(PARAMS.large_bytes, int(PARAMS.memory * context.machine.facts.memory_bytes))
    wanted = min(wanted, PARAMS.most * page_bytes + PARAMS.align_bytes) // page_bytes * page_bytes
    if wanted < 2 * PARAMS.least * page_bytes + PARAMS.align_bytes:
        return None
    return TlbPages(context, context.exact_pages(wanted, page_bytes, populate=False))


def measure_tlbs(pages: TlbPages | None) -> TlbRound:
    """Measure one round; its curve is empty where there are no pages."""
    return pages.round() if pages else TlbRound(pages=np.zeros(0), cycles=np.zeros(0))


# -- findings --------------------------------------------------------------------------------------------------------


def tlb_findings(rounds: Sequence[TlbRound], large: Sequence[TlbRound]) -> Iterator[Finding]:
    """Yield entries and penalties from `rounds` on small pages and on `large` ones (empty if there are none)."""
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
"""Steps of one TLB, each with the round whose curve shows it."""


def _of_pages(name: str, rounds: Sequence[TlbRound], small: Sequence[TlbRound]) -> Iterator[Finding]:
    """Yield entries and penalty of both TLBs, for pages of the size `name`; `small` are the rounds of small pages."""
    reach, costs = int(max(each.pages.max(initial=0) for each in rounds)), [each.misses() for each in rounds]
    for level in (0, 1):
        seen = [(step, each) for each in rounds if (step := each.levels()[level])]
        if len(seen) < min(PARAMS.seen, len(rounds)) and (step := pooled(rounds).levels()[level]):
            seen = [(step, pooled(rounds))] * PARAMS.seen
        entries, penalty = (f"tlb.l{level + 1}.{what}.{name}" for what in ("entries", "miss_penalty"))
        if seen and len(seen) >= min(PARAMS.seen, len(rounds)):
            value, low, high = quantile_of_rounds([each[level] for each in costs], MIDDLE)  # differences vary both ways
            bias = PARAMS.bias[0] + PARAMS.bias[1] * value
            yield _entries(entries, seen, level)
            cycles = Interval(value, max(low - bias, 0.0), high + bias)
            miss = decide.measured(penalty, cycles, "cycles", METHOD, f"tlb_{name}")
            # rounds that others disturb widen one side only; where both are wide, rounds don't agree on a value
            surer = min(value - cycles.low, cycles.high - value)
            yield miss if surer <= PARAMS.precise * value else decide.as_precise(miss, 0.0)
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
    """Return the entries of a TLB: the exact count, where a sharp step begins there; or the size of the only likely
    table with such a step; else a lower bound, or about where half of the step has risen."""
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
    # with random replacement a step begins at the count: it must not pass for a sharp step of a larger table
    sharp_one = sharp and (counted is None or entries <= PARAMS.agree * counted)
    if sharp_one and sure >= STEPS.sure and oddness(np.array([entries]))[0] <= PARAMS.most_odd:
        return decide.chosen(parameter, entries, "entries", METHOD)
    if counted is not None:
        return decide.at_least(parameter, min(counted, int(low)), "entries", "sets fill up one by one", COUNTED)
    if not level or sharp:  # unevenly filled sets and random replacement end a step late
        reason = f"half of the step has risen at {middle:.0f} pages, of {low:.0f} to {high:.0f}, and no table ends so"
        return decide.at_least(parameter, int(middle / PARAMS.latest), "entries", reason, METHOD)
    blurred = f"{METHOD}; a quarter, half and three quarters up a step that is not sharp; the next table as built"
    middle = float(np.quantile(halves, RATE))  # co-runners take entries
    near = [odd << power for odd in (1, 3) for power in range(4, 14)]  # tables as they are built
    value = min(near, key=lambda each: abs(np.log(each / middle)))
    return decide.measured(parameter, Interval(value, min(low, value), max(high, value)), "entries", blurred)


def _counted(seen: Seen) -> int | None:
    """Return the largest count of entries that two rounds agree on (co-runners take entries but give none); of the
    agreeing counts the one that is likelier as a table's size. None where no two agree."""
    counts = sorted((each.counted for _, each in seen if each.counted), reverse=True)
    for most in counts:
        alike = [count for count in counts if PARAMS.counts * most <= count <= most]
        if len(alike) >= min(2, len(seen)):
            return int(min(alike, key=lambda count: oddness(np.array([count]))[0]))
    return None


def _is_table(counted: int, seen: Seen) -> bool:
    """Whether a TLB may have so many entries, and a round that counted about as many saw a sharp step begin there."""
    risen = [step.risen for step, each in seen if (each.counted or 0) >= PARAMS.counts * counted]
    sharp = any(PARAMS.off * counted < low and half < PARAMS.sharp * counted for low, half, _ in risen)
    return bool(sharp and oddness(np.array([counted]))[0] <= PARAMS.odd)


def _without_second(parameter: str, shown: tuple[float, float, int], small: Sequence[TlbRound]) -> Finding:
    """Return the second TLB's entries where its step isn't seen. `shown`: cycles of a miss in the first TLB, cycles at
    the curve's end, and pages there. Without a second TLB, a miss costs a page walk, as much as `small` pages show."""
    (miss, end, reach), (hit, walk) = shown, np.median([each.misses() for each in small], axis=0).tolist()
    reason = f"no second step up to {reach} pages"
    if miss > walk - STEPS.least_cycles:
        return decide.absent(parameter, 0, "entries", METHOD)
    if max(miss, end) < hit + STEPS.least_cycles:
        return decide.at_least(parameter, reach, "entries", reason, METHOD)
    return decide.unresolved(parameter, "entries", f"{reason}; it holds more, or there is none", METHOD)


def pooled(rounds: Sequence[TlbRound]) -> TlbRound:
    """Return a curve of the median over rounds at each number of pages: a step may show here that each round hides."""
    pages = rounds[0].pages
    cycles = [np.interp(np.log(pages), np.log(each.pages), each.cycles) for each in rounds if len(each.pages)]
    return TlbRound(pages=pages, cycles=np.median(cycles, axis=0) if cycles else pages)


def tlb_evidence(rounds: Sequence[TlbRound], large: Sequence[TlbRound]) -> dict[str, Any]:
    """Return the evidence: the curves and counts of all rounds, on small and on `large` pages, by page size."""
    every = {"tlb_4k": rounds, "tlb_2m": large}
    return {name: [msgspec.to_builtins(each, enc_hook=np.ndarray.tolist) for each in every[name]] for name in every}
