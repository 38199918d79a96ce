"""Prefetches in special places: outside the page of the latest load, without a TLB entry, and on pages never touched.

A traversal of many other pages evicts a page's TLB entry. As a control, a load of a line that stays in the first cache
meanwhile must take longer than with its TLB entry present."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError
from setebench.experiments.bursts.bursts import (
    BEFORE,
    GONE,
    LINE,
    LOADED,
    PAGE_BYTES,
    PREFETCHED,
    WANTED,
    Addresses,
    Others,
    Times,
)
from setebench.probe import Base, Probe
from setebench.results import Finding

from .params import Params
from .trials import QUIETER, Answer, Trials

PAGES, WARM, FRESH = (Base(name) for name in ("pages", "warm", "fresh"))
IN_LARGE_PAGES = Answer(reason="memory lies in larger pages than of 4 KiB (--page-size)")


def across_page(trials: Trials) -> Iterator[Finding]:
    """Yield whether a prefetch works outside the page of the latest load. Nothing is measured here: `Controls.landed`
    has tried each hint outside that page, and only if that failed, right after a hit in the line's own page."""
    method = f"prefetch {trials.hint} right behind a load from another page, both translations warm"
    found = IN_LARGE_PAGES if trials.context.large_pages else Answer(not trials.warmed)
    yield found.finding("software_prefetch.across_page", "bool", method, "prefetched")


# -- without a translation ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Behind:
    """Result of a traversal of other pages, which evicts a page's TLB entry. `cycles` is how much longer a load takes
    without the entry, `error` its standard error; `done` says whether a prefetch to such a page brings its line."""

    cycles: float
    error: float
    done: Answer

    def costs_more(self, other: float, params: Params) -> bool:
        """Whether the missing TLB entry clearly costs more than `other` cycles."""
        return self.cycles - other > max(params.penalty, params.errors * self.error)


def on_tlb_miss(trials: Trials) -> Iterator[Finding]:
    """Yield whether a prefetch works that misses the first TLB, and one that misses both."""
    pages = (trials.params.first_tlb, trials.params.second_tlb)
    method, found = f"prefetch {trials.hint} behind a traversal of many pages", (IN_LARGE_PAGES, IN_LARGE_PAGES)
    if not trials.context.large_pages:
        seen = [_behind(trials, each) for each in pages if each * PAGE_BYTES <= trials.bursts.region.size // 2]
        found = on_tlb_misses(seen, not trials.warmed, trials.params)
    for level, each in zip(("l1", "l2"), found, strict=True):
        yield each.finding(f"software_prefetch.on_tlb_miss.{level}", "bool", method)


def on_tlb_misses(seen: Sequence[Behind], across: bool, params: Params) -> tuple[Answer, Answer]:
    """Decide whether prefetches work that miss the first TLB, and whether those that miss both do. `seen` are results
    of traversals, fewest pages first. `across`: prefetches outside the page of the latest load do work."""
    if not across:
        dropped = Answer(False, remark="as all prefetches outside the page of the latest load")
        return dropped, dropped
    first, *further = seen
    if not first.costs_more(0.0, params):
        # the second TLB answers at once, or the first has more entries: use traversals of more pages
        none = Answer(reason="loads behind a traversal show no TLB miss")
        both = next((each.done for each in further if each.costs_more(0.0, params)), none)
        return both if both.value else none, both
    if first.done.value is False:
        return first.done, Answer(False, remark="as with a miss of the first TLB alone")
    for each in further:
        if each.costs_more(first.cycles, params):
            return first.done, Answer(each.done.value, each.done.reason, f"missing both costs {each.cycles:.0f} cycles")
    return first.done, Answer(reason="loads behind the longest traversal show no miss of a second TLB")


def _behind(trials: Trials, pages: int) -> Behind:
    trials.context.progress(f"prefetches behind a traversal of {pages} pages")
    bursts, line = trials.bursts, LINE + trials.bursts.near
    warm = bursts.settled(Probe().load(line).fence().flush(GONE + 0)).chase(PAGES, pages).fence()
    # a load of another line loads the TLB entry of the line's page, or that of another page
    cold = bursts.settled(warm.load(WARM + 0)).start().load(line).stop()
    times = trials.by_state(cold, (LOADED, "cold"), _traversal(trials, pages))
    difference, error = _difference(times["cold"], times[LOADED])
    probe = bursts.settled(warm.prefetch(WANTED + 0, trials.hint))
    found = trials.done(probe.start().load(line).stop(), PREFETCHED, _traversal(trials, pages))
    return Behind(difference, error, found)


def _difference(longer: Times, shorter: Times) -> tuple[float, float]:
    """Return the difference of two mean times in cycles, each without its slowest 5 %, and its standard error."""
    trimmed = [each[each <= np.quantile(each, 0.95)] for each in (longer, shorter)]
    difference = float(trimmed[0].mean() - trimmed[1].mean())
    return difference, float(np.hypot(*(each.std() / len(each) ** 0.5 for each in trimmed)))


def _traversal(trials: Trials, pages: int) -> Others:
    """Return a function that places a traversal of so many pages, away from the line's memory and cache sets."""
    bursts = trials.bursts
    most = bursts.region.size // 2 // PAGE_BYTES
    order = bursts.rng.permutation(most)[:pages] * PAGE_BYTES + bursts.region.address + bursts.region.size // 2
    quarter = PAGE_BYTES // bursts.size // 4
    order = order + (3 * quarter + bursts.rng.integers(0, quarter, pages)) * bursts.size
    bursts.context.machine.link(bursts.region, order)

    def others(drawn: NDArray[np.str_], places: dict[Base, Addresses]) -> dict[Base, Addresses]:
        away = np.array([bursts.base(1, 1) for _ in drawn])
        warm = places[BEFORE] + np.where(drawn == "cold", away - places[LINE], 0)
        return {PAGES: np.full(len(drawn), order[0], dtype=np.int64), WARM: warm}

    return others


# -- pages never touched -----------------------------------------------------------------------------------------------


def on_page_fault(trials: Trials) -> Iterator[Finding]:
    """Yield whether a prefetch of a page that was never touched works."""
    trials.context.progress("prefetches of pages that were never touched")
    parameter = "software_prefetch.on_page_fault"
    method = f"prefetch {trials.hint} of a fresh page, then its first touch"
    try:
        touched, untouched = first_touches(trials)
    except UnsupportedError as error:
        yield Answer(reason=str(error)).finding(parameter, "bool", method)
        return
    if untouched < trials.params.fault * trials.unit:
        found = Answer(reason="the first touch of a page shows no page fault")
    else:
        found = mapped(touched / untouched, trials.params)
    yield trials.unless_ignored(found).finding(parameter, "bool", method)


def mapped(part: float, params: Params) -> Answer:
    """Decide whether a prefetch maps a page, by the time of a first touch afterwards, a `part` of a fault's time."""
    said = f"the first touch takes {part:.0%} of a page fault after a prefetch"
    if params.saved < part <= params.kept:
        return Answer(reason=f"{said}; {QUIETER}")
    return Answer(part <= params.saved, remark=said)


def first_touches(trials: Trials) -> tuple[float, float]:
    """Return median cycles of the first touch of pages that are not mapped yet: after a prefetch of another line of the
    page, and without one. Where a CPU's prefetch causes the page fault itself, the touch after it is much shorter.
    Raises `UnsupportedError` where memory is short."""
    context, params, bursts = trials.context, trials.params, trials.bursts
    stride, count, pages = params.spacing * PAGE_BYTES, params.touches + 1, params.fresh_pages
    region = context.exact_pages(count * pages * stride, min(context.machine.facts.page_sizes), populate=False)
    try:
        hinted = bursts.rng.permutation(np.arange(pages) % 2 == 0)
        probe = Probe()
        for number, wanted in enumerate(hinted.tolist()):
            page, at = FRESH + number * stride, (3 + number % 8) * bursts.size
            probe = bursts.settled(probe.prefetch(page + at, trials.hint) if wanted else probe)
            probe = probe.start(number).load(page + (PAGE_BYTES - at)).stop(number).fence()
        starts = region.address + np.arange(count, dtype=np.int64) * pages * stride
        ticks = context.machine.run(probe, {FRESH: starts}, cpu=context.cpu, warmup=1) * bursts.cycles_per_tick
    finally:
        context.machine.release(region)
    return float(np.median(ticks[:, hinted])), float(np.median(ticks[:, ~hinted]))
