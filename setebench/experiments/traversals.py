"""Which lines are still in a cache after others were loaded, by how long single loads of them take.

Pages are random ones. Of each either all lines but the last are used, so that what prefetchers bring are lines that are
used anyway; or few lines far apart, the first ones of some pages before their second ones: no prefetcher sees two of a
page soon one after the other, and lines at other offsets in pages mostly belong to other sets. The last line of a page
is flushed before one of its lines is timed, which warms the translation and takes nothing away.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import cycles_per_tick, step_ticks
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.experiments.lines.placing import BASELINE_ADDITIONS
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.ticks.location import mean_ticks

Lines = NDArray[np.int64]

WALK, AT_ONCE = Base("walk"), 8
"""Loads timed in one repetition; behind each are additions that it is compared with."""

TARGETS = tuple(Base(f"target_{number}") for number in range(AT_ONCE))
SPARES = tuple(Base(f"spare_{number}") for number in range(AT_ONCE))


class Filled(NamedTuple):
    """At stops of a filling: how many pages were used until then, shape (stops,); of single loads, two of each of some
    pages, always two of which one was used right after the other: how many lines were loaded before each one's, and
    cycles, shape (stops, pages, 2); and how many times as long as a typical part of it the longest one took."""

    pages: Lines
    place: Lines
    cycles: NDArray[np.float64]
    longest: float


class Pages(NamedTuple):
    """How many pages are filled between two stops, how many stops there are, and after how many further pages each is
    loaded again (0 for never): some caches give up lines early that were used once, or never take them."""

    each: int
    stops: int
    again: int


def fill(context: Context, region: Region, offsets: Lines, pages: Pages, rng: np.random.Generator) -> Filled:
    """Load lines at `offsets` (in lines) of random pages where no cache has them, and once again a little later. At
    each stop single loads of some of the lines until then are timed, all in one run: what a program does between two
    runs takes lines out of private caches. So do, in time, others who share a directory of lines, and loads don't wait
    for each other, which takes a tenth of a chase. Afterwards all lines are flushed, so that the ways they were in are
    empty."""
    each, stops, again = pages
    own = region.address + rng.permutation(region.size // TLB_PAGE_BYTES)[: each * stops] * TLB_PAGE_BYTES
    lines = own[:, None] + offsets * region.line_size
    probe, order = _loads(each, tuple(offsets.tolist()), region.line_size)
    if again:
        probe = probe + _loads(each, tuple(offsets.tolist()), region.line_size, "again")[0]
    place = order.argsort() + np.arange(stops)[:, None] * len(order)
    until = each * np.arange(1, stops + 1)
    first = [rng.choice(max(1, most // 2), AT_ONCE // 4, replace=most < AT_ONCE) for most in until.tolist()]
    page = np.minimum((2 * np.array(first)[:, :, None] + np.arange(2)).reshape(stops, -1), until[:, None] - 1)
    which = rng.random((*page.shape, len(offsets))).argsort(axis=2)[:, :, :2]
    place = place.reshape(lines.shape)[page[:, :, None], which]
    timed = lines[page[:, :, None], which].transpose(0, 2, 1).reshape(stops, AT_ONCE)
    number, used = np.arange(len(own)), {Base(f"page_{first}"): own[first::each] for first in range(each)}
    if again:
        before = np.maximum(number - -(-again // each) * each, number % each)
        used |= {Base(f"again_{first}"): own[before][first::each] for first in range(each)}
    probe = Probe().start(2 * AT_ONCE) + probe.stop(2 * AT_ONCE) + _timed_loads()
    ticks = context.machine.run(probe, used | _places(timed, region.line_size), cpu=context.cpu)
    _flush(context, own, offsets, region.line_size)
    cycles = _cycles(context, ticks[:, :AT_ONCE], ticks[:, AT_ONCE:-1]).reshape(stops, 2, -1).transpose(0, 2, 1)
    return Filled(until, place, cycles, float(ticks.max() / max(1.0, np.median(ticks[:, -1]))))


def flush(context: Context, region: Region) -> None:
    """Take all lines of a region out of every cache: some policies would keep them for as long as new ones come."""
    pages = region.address + np.arange(region.size // TLB_PAGE_BYTES) * TLB_PAGE_BYTES
    _flush(context, pages, np.arange(TLB_PAGE_BYTES // region.line_size - 1), region.line_size)


def _flush(context: Context, pages: Lines, offsets: Lines, line: int) -> None:
    probe = Probe()
    for offset in [*offsets.tolist(), TLB_PAGE_BYTES // line - 1]:
        probe = probe.flush(WALK + offset * line)
    context.machine.run(probe, {WALK: pages}, cpu=context.cpu)


@cache
def _loads(pages: int, offsets: tuple[int, ...], line: int, name: str = "page") -> tuple[Probe, Lines]:
    """Loads of lines of some pages, and which of all (offsets of a page after another) come one after the other: whole
    pages all mixed, of few lines the first ones of all pages first."""
    number = np.arange(pages * len(offsets))
    order = number.reshape(pages, -1).T.ravel()
    if len(offsets) == TLB_PAGE_BYTES // line - 1:
        order = np.random.default_rng(pages).permutation(number)
    probe, bases = Probe(), [Base(f"{name}_{each}") for each in range(pages)]
    for page, at in zip(*(each.tolist() for each in np.divmod(order, len(offsets))), strict=True):
        probe = probe.load(bases[page] + offsets[at] * line)
    return probe.fence(), order


def _places(timed: Lines, line: int) -> dict[Base, Lines]:
    """Lines to time and the spare ones of their pages, shape (repetitions, `AT_ONCE`), by name."""
    last = timed - timed % TLB_PAGE_BYTES + TLB_PAGE_BYTES - line
    return {base: timed[:, n] for n, base in enumerate(TARGETS)} | {base: last[:, n] for n, base in enumerate(SPARES)}


@cache
def _timed_loads() -> Probe:
    """Single loads, and additions among them."""
    probe = Probe()
    for number, (target, spare) in enumerate(zip(TARGETS, SPARES, strict=True)):
        probe = _timed(_timed(probe, number, spare, target), AT_ONCE + number, spare)
    return probe


def _timed(probe: Probe, number: int, spare: Base, target: Base | None = None) -> Probe:
    """`probe`, then a load of the target, or additions without one, the page's translation being warm."""
    probe = probe.flush(spare + 0).fence().start(number)
    return (probe.load(target) if target else probe.add(BASELINE_ADDITIONS)).stop(number)


def _cycles(context: Context, loads: Lines, additions: Lines) -> NDArray[np.float64]:
    """Of single loads, by the additions beside them (ticks)."""
    base = mean_ticks(additions.ravel(), step_ticks(context))
    cycles: NDArray[np.float64] = (loads.astype(np.float64) - base) * cycles_per_tick(context)
    return cycles + BASELINE_ADDITIONS


HOT_ADDITIONS = 8
"""Additions in one repetition that loads of lines in use are compared with."""


def lines_in_use(context: Context, region: Region, hot: Lines, stream: Lines, touches: int) -> NDArray[np.float64]:
    """Cycles of loads of some lines after every so many whole pages of a stream that goes round and round (their
    addresses, shape (parts, pages of each)), shape (touches, lines)."""
    line = context.machine.facts.line_size
    targets, spares = ([Base(f"{name}_{number}") for number in range(len(hot))] for name in ("hot", "spare"))
    probe, _ = _loads(stream.shape[1], tuple(range(TLB_PAGE_BYTES // line - 1)), line)
    for number, (target, spare) in enumerate(zip(targets, spares, strict=True)):
        probe = _timed(probe, number, spare, target)
    for number in range(len(hot), len(hot) + HOT_ADDITIONS):
        probe = _timed(probe, number, spares[0])
    around = stream[np.arange(touches) % len(stream)]
    places = {Base(f"page_{number}"): around[:, number] for number in range(stream.shape[1])}
    for number, at in enumerate(hot.tolist()):
        last = at - at % TLB_PAGE_BYTES + TLB_PAGE_BYTES - line
        places |= {targets[number]: np.full(touches, at), spares[number]: np.full(touches, last)}
    ticks = context.machine.run(probe, places, cpu=context.cpu)
    return _cycles(context, ticks[:, : len(hot)], ticks[:, len(hot) : len(hot) + HOT_ADDITIONS])
