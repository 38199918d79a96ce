"""Prefetches in special places: outside the page of the latest load, without a translation, in pages never touched.

A TLB entry is pushed out by traversing many other pages, never by flushing or by a trick with the page itself. The
number of entries is unknown, so it is shown that the traversal did it: a line that stays in the first cache meanwhile
takes longer to load behind it than with its entry warm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.errors import UnsupportedError
from setebench.experiments.lines.layout import GROUP_PAGES, TLB_PAGE_BYTES
from setebench.experiments.lines.placing import SETTLE_CYCLES, TARGET_BYTES, Place
from setebench.machine import Ticks
from setebench.probe import Base, Probe
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

from . import answers
from .answers import QUIETER, Answer, standard_error
from .params import Layout, Params
from .run import Run, Way, loaded, nothing, on_layouts, prefetched

PAGES, FRESH = Base("pages"), Base("fresh")


def across_page(run: Run) -> Iterator[Finding]:
    """Whether a prefetch outside the page of the latest load is done."""
    run.context.progress("prefetches outside the page of the latest load")
    ways: dict[str, Way] = {"elsewhere": prefetched(run.hint, elsewhere=True), "": nothing}
    ticks = run.side_by_side("memory", ways, run.samples // 4)
    found = run.unless_ignored(answers.done(run.shares(*ticks.values()), run.params))
    run.across_page = found.value if isinstance(found.value, bool) else None
    method = f"prefetch {run.hint} right behind a load from another page, both translations warm"
    yield found.finding("software_prefetch.across_page", "bool", method)


# -- without a translation ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Penalty:
    """What a missing translation costs behind a traversal, in cycles, with its standard error."""

    cycles: float
    error: float

    def above(self, other: Penalty, params: Params) -> bool:
        """Whether it is clearly higher than another one."""
        apart, error = self.cycles - other.cycles, float(np.hypot(self.error, other.error))
        return apart > params.penalty and apart > params.errors * error


NO_PENALTY = Penalty(0.0, 0.0)


class Behind(NamedTuple):
    """Ticks behind a traversal of pages, shapes (n,): loads of lines in the first cache with and without their TLB
    entry, and of lines that were in memory, prefetched behind the traversal or not."""

    cold: Ticks
    warm: Ticks
    prefetched: Ticks
    baseline: Ticks


def on_tlb_miss(run: Run) -> Iterator[Finding]:
    """Whether a prefetch is done that misses the first TLB, or both."""
    per_tick = run.cycles_per_tick()
    seen: list[tuple[int, Penalty, Answer]] = []
    table = []
    most = (run.region.size - min(TARGET_BYTES, run.region.size // 2)) // TLB_PAGE_BYTES
    for pages in (run.layout.first_tlb, run.layout.second_tlb, most):
        if pages > most:
            continue
        ticks = _behind_traversal(run, pages, most)
        apart = mean_ticks(ticks.cold, run.step) - mean_ticks(ticks.warm, run.step)
        error = float(np.hypot(standard_error(ticks.cold), standard_error(ticks.warm)))
        cost = Penalty(apart * per_tick, error * per_tick)
        shares = run.shares(ticks.prefetched, ticks.baseline)
        seen.append((pages, cost, run.unless_ignored(answers.done(shares, run.params))))
        table.append({"pages": pages, "penalty_cycles": cost.cycles, "still_in_memory": shares.of("memory").tolist()})
        if len(seen) > 1 and cost.above(seen[0][1], run.params):
            break  # the longest traversal is only needed where shorter ones leave every translation in some TLB
    run.context.evidence["page_walks"] = table
    method = f"prefetch {run.hint} behind a traversal of many pages"
    for level, found in zip(("l1", "l2"), on_tlb_misses(seen, run.across_page, run.params), strict=True):
        yield found.finding(f"software_prefetch.on_tlb_miss.{level}", "bool", method, "page_walks")


def on_tlb_misses(
    seen: Sequence[tuple[int, Penalty, Answer]], across: bool | None, params: Params
) -> tuple[Answer, Answer]:
    """Whether prefetches are done on a miss of the first TLB, and on one of both. `seen` are pages traversed, what a
    missing translation costs behind them, and whether prefetches were done behind them; fewest pages first."""
    if across is False:
        dropped = Answer(False, remark="as all prefetches outside the page of the latest load")
        return dropped, dropped
    (pages, first_cost, first), *further = seen
    if not first_cost.above(NO_PENALTY, params):
        # a second TLB that answers at once, or a first one with more entries: more pages miss both
        none = Answer(reason=f"loads behind a traversal of {pages} pages show no TLB miss")
        both = next((answer for _, cost, answer in further if cost.above(NO_PENALTY, params)), none)
        return both if both.value else none, both
    if first.value is False and across is None:
        unknown = Answer(reason="not done, but whether for the TLB or for the page change is unresolved")
        return unknown, unknown
    if first.value is False:
        return first, Answer(False, remark="as with a miss of the first TLB alone")
    for _, cost, answer in further:
        if cost.above(first_cost, params):
            return first, Answer(answer.value, answer.reason, f"missing both costs {cost.cycles:.0f} cycles")
    return first, Answer(reason=f"loads behind a traversal of {seen[-1][0]} pages show no miss of a second TLB")


def _behind_traversal(run: Run, pages: int, most: int) -> Behind:
    """What traversing `pages` pages does to translations and to prefetches; about `run.samples` of each."""
    context, layout, warmed = run.context, run.layout, run.layout.warmed
    rng = np.random.default_rng((context.seed, pages))
    count = run.repetitions(warmed)
    low, high = (line * (TLB_PAGE_BYTES // run.region.line_size) // 64 for line in layout.walk_lines)
    context.progress(f"prefetches behind a traversal of {pages} pages")

    def take() -> Behind:
        place = Place(context, run.region, "memory", 0.0)
        first = int(rng.integers(0, max(most - pages, 0) + 1))
        order = run.region.address + (first + rng.permutation(pages)) * TLB_PAGE_BYTES
        order = order + rng.integers(low, high + 1, pages) * run.region.line_size
        context.machine.link(run.region, order)
        hinted = rng.permutation(np.arange(GROUP_PAGES) % 2 == 0)
        penalty, after = (
            run.timed(probe, {**place.placements(count + 1), PAGES: np.repeat(order[:1], count + 1)})
            for probe in (_penalty_probe(place, pages, warmed), _prefetch_probe(place, pages, run.hint, hinted))
        )
        return Behind(penalty[:, :warmed], penalty[:, warmed:], after[:, hinted], after[:, ~hinted])

    return Behind(*on_layouts(take))


def _traversed(probe: Probe, pages: int) -> Probe:
    return probe.fence().chase(PAGES, pages).fence()


def _penalty_probe(place: Place, pages: int, warmed: int) -> Probe:
    """Targets brought to the first cache, the traversal, and each target loaded twice: without its TLB entry, with
    it."""
    probe = Probe()
    for target in place.targets[:warmed]:
        probe = probe.load(target)
    probe = _traversed(probe, pages)
    for number, target in enumerate(place.targets[:warmed]):
        probe = probe.start(number).load(target).stop(number)
        again = warmed + number
        probe = place.ready(probe, number, 1).start(again).load(target).stop(again)
    return probe


def _prefetch_probe(place: Place, pages: int, hint: str, hinted: NDArray[np.bool_]) -> Probe:
    """Targets flushed, the traversal, then some of them prefetched, one at a time; all loads come after all prefetches,
    so that no load brings a translation back before its prefetch."""
    probe = _traversed(place.placed(), pages)
    for target, wanted in zip(place.targets, hinted.tolist(), strict=True):
        probe = probe.prefetch(target, hint).wait(SETTLE_CYCLES).fence() if wanted else probe
    for number in range(GROUP_PAGES):
        probe = loaded(probe, place, number)
    return probe


# -- pages never touched -----------------------------------------------------------------------------------------------


class FirstTouches(NamedTuple):
    """Ticks of fresh pages, shapes (n,): of the prefetch (or nothing) before the first touch, of the first touch, and
    of a load of the prefetched line then. Each as (prefetched, not prefetched)."""

    before: tuple[Ticks, Ticks]
    touch: tuple[Ticks, Ticks]
    line: tuple[Ticks, Ticks]


def on_page_fault(run: Run) -> Iterator[Finding]:
    """Whether a prefetch of a page that was never touched is done."""
    run.context.progress("prefetches of pages that were never touched")
    parameter = "software_prefetch.on_page_fault"
    method = f"prefetch {run.hint} of a fresh page, then its first touch"
    try:
        ticks = first_touches(run.context, run.hint, run.params.touches, run.layout)
    except UnsupportedError as error:
        yield Answer(reason=str(error)).finding(parameter, "bool", method)
        return
    medians = {name: [float(np.median(each)) for each in pair] for name, pair in zip(ticks._fields, ticks, strict=True)}
    run.context.evidence["first_touches"] = {"median_ticks": medians, "order": ["prefetched", "not prefetched"]}
    cached = answers.done(run.shares(*ticks.line), run.params)
    touched, untouched = medians["touch"]
    if untouched < run.params.fault * run.memory_ticks:
        found = Answer(reason="the first touch of a page shows no page fault")
    else:
        found = mapped(touched / untouched, cached, run.params)
    yield run.unless_ignored(found).finding(parameter, "bool", method, "first_touches")


def mapped(part: float, line_was_cached: Answer, params: Params) -> Answer:
    """From what `part` of a page fault the first touch of a page takes after a prefetch, and whether the line was then
    in a cache (unresolved where lines of fresh pages always are)."""
    if part > params.kept:
        return Answer(False, remark=f"the first touch still takes {part:.0%} of a page fault")
    if part > params.saved:
        return Answer(reason=f"the first touch takes {part:.0%} of a page fault after a prefetch; {QUIETER}")
    if line_was_cached.value is False:
        return Answer(False, remark="the page was mapped, but the line not fetched")
    return Answer(True, remark=f"the first touch takes {part:.0%} of a page fault")


def first_touches(context: Context, hint: str, repetitions: int, layout: Layout) -> FirstTouches:
    """Prefetches of lines in pages that were never touched, then the first touch of each page, on another line of it.

    If the prefetch had been done, the page would be there and the first touch would not fault. That does not depend on
    where the kernel leaves the lines of a page that it has just filled with zeros. Raises `UnsupportedError` where
    memory is short."""
    stride, pages = layout.spacing * TLB_PAGE_BYTES, layout.fresh_pages
    count = repetitions + 1
    region = context.machine.allocate(count * pages * stride, min(context.machine.facts.page_sizes), populate=False)
    try:
        starts = region.address + np.arange(count, dtype=np.int64) * pages * stride
        hinted = context.rng("prefetched pages").permutation(np.arange(pages) % 2 == 0)
        probe = Probe()
        for number, wanted in enumerate(hinted.tolist()):
            page = FRESH + number * stride
            target = page + (5 + number % 16) * region.line_size
            beside = page + TLB_PAGE_BYTES - (3 + number % 8) * region.line_size
            probe = probe.start(3 * number)
            probe = (probe.prefetch(target, hint) if wanted else probe).stop(3 * number)
            probe = probe.wait(SETTLE_CYCLES).fence().start(3 * number + 1).load(beside).stop(3 * number + 1).fence()
            probe = probe.start(3 * number + 2).load(target).stop(3 * number + 2).fence()
        ticks = context.machine.run(probe, {FRESH: starts}, cpu=context.cpu, warmup=1)
    finally:
        context.machine.release(region)
    parts = ticks.reshape(repetitions, pages, 3)
    chosen, others = parts[:, hinted].reshape(-1, 3), parts[:, ~hinted].reshape(-1, 3)
    return FirstTouches(*((chosen[:, n], others[:, n]) for n in range(3)))
