"""Prefetches whose translation is missing: from the first TLB, from both, and of pages that nobody has touched.

A TLB entry is pushed out by walking over many other pages, never by flushing or by a trick with the page itself. The
number of entries is unknown, so it is shown that the walk did it: a line that stays in the first cache meanwhile takes
longer to load behind the walk than with its entry warm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region, Ticks
from setebench.measure.layout import GROUP_PAGES, TLB_PAGE_BYTES
from setebench.measure.placing import SETTLE_CYCLES, TARGET_BYTES, Place
from setebench.measure.serving import LAYOUTS
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.software_prefetch.ways import loaded

PAGES, FRESH = Base("pages"), Base("fresh")

FIRST_WALK_PAGES = 192
"""More pages than any first data TLB of an x86-64 CPU holds (96 at most so far), fewer than any second one (512 since
2008): from it on a translation comes from the second TLB."""

SECOND_WALK_PAGES = 8192
"""More pages than any second data TLB holds (4096 so far). Where nothing shows behind so many, all memory is walked."""

WALKED_LINES = (48, 63)
"""Lines of a page that walks use. Targets are below, so in a first cache indexed by the offset in a page (all are) they
never fall into a target's set, and a target stays there over the longest walk."""

WARMED = 32
"""Targets whose loads show that the entries were gone; no more, so that they fit the fewest ways of a first cache."""

SPACING_PAGES = 16
"""Pages between fresh ones: a kernel that maps several pages at one fault must not map the next one too."""

FRESH_PAGES = 20


class PageWalk:
    """A chase over one line each of `pages` neighbouring pages, in random order."""

    def __init__(self, context: Context, region: Region, pages: int, rng: np.random.Generator) -> None:
        first = int(rng.integers(0, max(most_pages(region) - pages, 0) + 1))
        chosen = region.address + (first + rng.permutation(pages)) * TLB_PAGE_BYTES
        low, high = (line * (TLB_PAGE_BYTES // region.line_size) // 64 for line in WALKED_LINES)
        self.order = chosen + rng.integers(low, high + 1, pages) * region.line_size
        context.machine.link(region, self.order)

    def then(self, probe: Probe) -> Probe:
        """`probe`, then the walk."""
        return probe.fence().chase(PAGES, len(self.order)).fence()


def most_pages(region: Region) -> int:
    """Pages of a region that targets are never taken from."""
    return (region.size - min(TARGET_BYTES, region.size // 2)) // TLB_PAGE_BYTES


def walk_lengths(region: Region) -> tuple[int, ...]:
    """Pages of walks that push out the first TLB's entries, the second's, and those of a second one larger than any."""
    most = most_pages(region)
    return tuple(pages for pages in (FIRST_WALK_PAGES, SECOND_WALK_PAGES, most) if pages <= most)


class Behind(NamedTuple):
    """Ticks behind a walk over pages, shapes (n,): loads of lines in the first cache with and without their TLB entry,
    and of lines that were in memory, prefetched behind the walk or not."""

    cold: Ticks
    warm: Ticks
    prefetched: Ticks
    baseline: Ticks


def behind_walk(context: Context, region: Region, pages: int, hint: str, samples: int) -> Behind:
    """What a walk over `pages` pages does to translations and to prefetches; about `samples` of each."""
    parts: list[Behind] = []
    rng = np.random.default_rng((context.seed, pages))
    count = max(2, -(-samples // (LAYOUTS * WARMED)))
    for number in range(LAYOUTS):
        context.progress(f"prefetches behind a walk over {pages} pages, {number + 1} of {LAYOUTS}")
        place = Place(context, region, "memory", 0.0)
        walk = PageWalk(context, region, pages, rng)
        hinted = rng.permutation(np.arange(GROUP_PAGES) % 2 == 0)
        penalty = _run(context, place, walk, _penalty_probe(place, walk), count)
        after = _run(context, place, walk, _prefetch_probe(place, walk, hint, hinted.tolist()), count)
        parts.append(Behind(penalty[:, :WARMED], penalty[:, WARMED:], after[:, hinted], after[:, ~hinted]))
    return Behind(*(np.concatenate([part.ravel() for part in column]) for column in zip(*parts, strict=True)))


def _run(context: Context, place: Place, walk: PageWalk, probe: Probe, count: int) -> Ticks:
    placed = {**place.placements(count + 1), PAGES: np.repeat(walk.order[:1], count + 1)}
    return context.machine.run(probe, placed, cpu=context.cpu, warmup=1)


def _penalty_probe(place: Place, walk: PageWalk) -> Probe:
    """Targets brought to the first cache, the walk, and each target loaded twice: without its TLB entry and with it."""
    probe = Probe()
    for target in place.targets[:WARMED]:
        probe = probe.load(target)
    probe = walk.then(probe)
    for number, target in enumerate(place.targets[:WARMED]):
        probe = probe.start(number).load(target).stop(number)
        again = WARMED + number
        probe = place.ready(probe, number, 1).start(again).load(target).stop(again)
    return probe


def _prefetch_probe(place: Place, walk: PageWalk, hint: str, hinted: Sequence[bool]) -> Probe:
    """Targets flushed, the walk, then some of them prefetched, one at a time; all loads come after all prefetches, so
    that no load brings a translation back before its prefetch."""
    probe = walk.then(place.placed())
    for target, done in zip(place.targets, hinted, strict=True):
        probe = probe.prefetch(target, hint).wait(SETTLE_CYCLES).fence() if done else probe
    for number in range(GROUP_PAGES):
        probe = loaded(probe, place, number)
    return probe


class FirstTouches(NamedTuple):
    """Ticks of fresh pages, shapes (n,): of the prefetch (or nothing) before the first touch, of the first touch, and
    of a load of the prefetched line then. Each as (prefetched, not prefetched)."""

    before: tuple[Ticks, Ticks]
    touch: tuple[Ticks, Ticks]
    line: tuple[Ticks, Ticks]


def first_touches(context: Context, hint: str, repetitions: int) -> FirstTouches:
    """Prefetches of lines in pages that were never touched, then the first touch of each page, on another line of it.

    If the prefetch had been done, the page would be there and the first touch would not fault. That does not depend on
    where the kernel leaves the lines of a page that it has just filled with zeros. Raises `UnsupportedError` where
    memory is short."""
    stride = SPACING_PAGES * TLB_PAGE_BYTES
    count = repetitions + 1
    region = context.machine.allocate(
        count * FRESH_PAGES * stride, min(context.machine.facts.page_sizes), populate=False
    )
    try:
        placed: dict[Base, NDArray[np.int64]] = {
            FRESH: region.address + np.arange(count, dtype=np.int64) * FRESH_PAGES * stride
        }
        hinted = context.rng(42).permutation(np.arange(FRESH_PAGES) % 2 == 0)
        probe = _fresh_probe(hint, hinted.tolist(), region.line_size)
        ticks = context.machine.run(probe, placed, cpu=context.cpu, warmup=1)
    finally:
        context.machine.release(region)
    parts = ticks.reshape(repetitions, FRESH_PAGES, 3)
    chosen, others = parts[:, hinted].reshape(-1, 3), parts[:, ~hinted].reshape(-1, 3)
    return FirstTouches(*((chosen[:, n], others[:, n]) for n in range(3)))


def _fresh_probe(hint: str, hinted: Sequence[bool], line_size: int) -> Probe:
    probe = Probe()
    for number, done in enumerate(hinted):
        page = FRESH + number * SPACING_PAGES * TLB_PAGE_BYTES
        target, beside = page + (5 + number % 16) * line_size, page + TLB_PAGE_BYTES - (3 + number % 8) * line_size
        probe = probe.start(3 * number)
        probe = (probe.prefetch(target, hint) if done else probe).stop(3 * number)
        probe = probe.wait(SETTLE_CYCLES).fence().start(3 * number + 1).load(beside).stop(3 * number + 1).fence()
        probe = probe.start(3 * number + 2).load(target).stop(3 * number + 2).fence()
    return probe
