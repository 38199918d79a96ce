"""Which of the lines of a traversal are still in a cache after it, by how long single loads of them take.

Pages are random ones, and each is used whole but for its last line, so that what prefetchers bring are lines that are
traversed anyway. A few pages at a time are finished in random order: their translations are at hand, and no stream is
followed. The last line of a page is flushed before one of its lines is timed, which warms the translation and takes
nothing away.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.infer.ticks import mean_ticks
from setebench.machine import Region
from setebench.measure.calibrate import step_ticks
from setebench.measure.layout import TLB_PAGE_BYTES, WINDOW_PAGES
from setebench.measure.placing import BASELINE_ADDITIONS
from setebench.measure.rings import cycles_per_tick
from setebench.probe import Base, Probe
from setebench.scenario import Context

Lines = NDArray[np.int64]

WALK, AT_ONCE, ADDITIONS = Base("walk"), 32, 8
"""Loads timed in one repetition, and additions among them that a load is compared with."""

TARGETS = tuple(Base(f"target_{number}") for number in range(AT_ONCE))
SPARES = tuple(Base(f"spare_{number}") for number in range(AT_ONCE))


class Timed(NamedTuple):
    """Of single loads: the place of each one's line in the traversal, and cycles; shape (loads,) each."""

    place: Lines
    cycles: NDArray[np.float64]


def traversal(region: Region, pages: int, rng: np.random.Generator) -> Lines:
    """Lines of so many random pages in an order to traverse them."""
    lines = TLB_PAGE_BYTES // region.line_size - 1
    chosen = region.address + rng.permutation(region.size // TLB_PAGE_BYTES)[:pages] * TLB_PAGE_BYTES
    own = chosen[:, None] + np.arange(lines) * region.line_size
    whole = pages // WINDOW_PAGES * WINDOW_PAGES
    windows = rng.permuted(own[:whole].reshape(-1, WINDOW_PAGES * lines), axis=1)
    return np.concatenate([windows.ravel(), rng.permuted(own[whole:].ravel())]).astype(np.int64)


def traverse(context: Context, region: Region, order: Lines, rounds: int) -> None:
    """Go round so often."""
    context.machine.link(region, order)
    context.machine.run(Probe().chase(WALK, len(order)), {WALK: np.repeat(order[:1], rounds)}, cpu=context.cpu)


def flush_pages(context: Context, order: Lines) -> None:
    """Take all lines of a traversal's pages out of every cache, which leaves their ways empty: what is traversed next
    finds room there, whatever a cache replaces."""
    pages = np.unique(order - order % TLB_PAGE_BYTES)
    probe = Probe()
    for offset in range(0, TLB_PAGE_BYTES, context.machine.facts.line_size):
        probe = probe.flush(WALK + offset)
    context.machine.run(probe, {WALK: pages}, cpu=context.cpu)


def time_lines(context: Context, order: Lines, loads: int, rng: np.random.Generator) -> Timed:
    """Time single loads of random lines of a traversal, none twice."""
    repetitions = max(1, min(loads, len(order)) // AT_ONCE)
    place = rng.permutation(len(order))[: repetitions * AT_ONCE].reshape(repetitions, AT_ONCE)
    line = context.machine.facts.line_size
    at = order[place]
    last = at - at % TLB_PAGE_BYTES + TLB_PAGE_BYTES - line
    places = {base: at[:, n] for n, base in enumerate(TARGETS)} | {base: last[:, n] for n, base in enumerate(SPARES)}
    ticks = context.machine.run(_timed_loads(), places, cpu=context.cpu)
    base = mean_ticks(ticks[:, AT_ONCE:].ravel(), step_ticks(context))
    cycles: NDArray[np.float64] = (ticks[:, :AT_ONCE].astype(np.float64) - base) * cycles_per_tick(
        context
    ) + BASELINE_ADDITIONS
    return Timed(place.ravel(), cycles.ravel())


@cache
def _timed_loads() -> Probe:
    """Single loads, and additions among them. Made once: on this CPU what makes a probe between the traversal and the
    loads takes milliseconds, and the lines of a second cache with it."""
    probe = Probe()
    for number, (target, spare) in enumerate(zip(TARGETS, SPARES, strict=True)):
        probe = probe.flush(spare + 0).fence().start(number).load(target).stop(number)
        if number < ADDITIONS:
            probe = probe.flush(spare + 0).fence().start(AT_ONCE + number)
            probe = probe.add(BASELINE_ADDITIONS).stop(AT_ONCE + number)
    return probe


HOT = tuple(Base(f"hot_{number}") for number in range(AT_ONCE))


def hot_and_stream(region: Region, hot: int, pages: int, rng: np.random.Generator) -> tuple[Lines, Lines]:
    """A few lines in pages of their own, and a traversal of other pages."""
    drawn = rng.permutation(region.size // TLB_PAGE_BYTES)[: hot + pages]
    lines = TLB_PAGE_BYTES // region.line_size - 1
    begin = region.address + drawn * TLB_PAGE_BYTES
    own = begin[:hot] + rng.integers(0, lines, hot) * region.line_size
    order = rng.permuted(begin[hot:, None] + np.arange(lines) * region.line_size, axis=1)
    return own.astype(np.int64), order.ravel().astype(np.int64)


def lines_in_use(
    context: Context, region: Region, hot: Lines, order: Lines, every: int, touches: int
) -> NDArray[np.float64]:
    """Cycles of loads of some lines (up to `AT_ONCE`) after every so many lines of a traversal that goes round and
    round, shape (touches, lines)."""
    context.machine.link(region, order)
    line = context.machine.facts.line_size
    probe = Probe().chase(WALK, every).fence()
    for number, (target, spare) in enumerate(zip(HOT, SPARES[: len(hot)], strict=False)):
        probe = probe.flush(spare + 0).fence().start(number).load(target).stop(number)
    for number in range(len(hot), len(hot) + ADDITIONS):
        probe = probe.flush(SPARES[0] + 0).fence().start(number).add(BASELINE_ADDITIONS).stop(number)
    places = {WALK: order[np.arange(touches) * every % len(order)]}
    for number, at in enumerate(hot.tolist()):
        last = at - at % TLB_PAGE_BYTES + TLB_PAGE_BYTES - line
        places |= {HOT[number]: np.full(touches, at), SPARES[number]: np.full(touches, last)}
    ticks = context.machine.run(probe, places, cpu=context.cpu)
    base = mean_ticks(ticks[:, len(hot) :].ravel(), step_ticks(context))
    cycles: NDArray[np.float64] = (ticks[:, : len(hot)].astype(np.float64) - base) * cycles_per_tick(
        context
    ) + BASELINE_ADDITIONS
    return cycles
