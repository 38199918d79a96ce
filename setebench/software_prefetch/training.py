"""Do software prefetches wake hardware prefetchers? Two patterns that known ones follow, made of prefetches alone.

A *run*: eight neighbouring lines of a page, the last one three times over, always missing. Next-line, pair, stream and
stride prefetchers, up or down, would fetch the line after it. *Visits*: the same lines of many pages, then the first of
them in a new page: a prefetcher that remembers regions would fetch the others there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region, Ticks
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.placing import SETTLE_CYCLES, TARGET_BYTES
from setebench.measure.serving import LAYOUTS
from setebench.probe import Base, Probe
from setebench.scenario import Context

GROUND = Base("ground")

RUN_LINES, RUN_PAGES = 8, 16
AGAIN = 2
"""The last line of a run is flushed and prefetched so often again, for prefetchers that wait for several misses of one
line."""

SPACE_CYCLES = 700
"""Time between the prefetches of a run, in which a line arrives and a prefetcher may act."""

VISITED_PAGES, FRESH_PAGES = 40, 8
"""Visits that train (more than a prefetcher keeps under observation at once), and new pages that are then looked at."""

FIRST_LINE, SECOND_LINE, BESIDE_LINE, RUN_LINE = 8, 13, 54, 16
SHIFTS = 8


def run_of_prefetches(context: Context, region: Region, hint: str, samples: int) -> tuple[Ticks, Ticks]:
    """Ticks of loads of the line after a run, with the run made of prefetches and without it; shapes (n,)."""
    rng = context.rng(44)
    count = max(2, -(-2 * samples // (LAYOUTS * RUN_PAGES)))
    with_run: list[Ticks] = []
    without: list[Ticks] = []
    for _ in range(LAYOUTS):
        # pages by turns: a run up, a run down, and the same two without prefetches
        turn = rng.permutation(np.arange(RUN_PAGES) % 4)
        probe = Probe()
        for number, which in enumerate(turn.tolist()):
            probe = _run(probe, number, up=which % 2 == 0, hint=hint if which < 2 else "", line_size=region.line_size)
        ticks = _timed(context, region, probe, count, rng)
        with_run.append(ticks[:, turn < 2].ravel())
        without.append(ticks[:, turn >= 2].ravel())
    return np.concatenate(with_run), np.concatenate(without)


def _run(probe: Probe, number: int, *, up: bool, hint: str, line_size: int) -> Probe:
    page = GROUND + number * TLB_PAGE_BYTES
    # the last line is the first of its pair going up, the second going down: its partner is the line after it
    lines = [RUN_LINE - 1 + n if up else RUN_LINE + 2 * RUN_LINES - n for n in range(RUN_LINES)]
    beside = page + BESIDE_LINE * line_size
    after = page + (lines[-1] + (1 if up else -1)) * line_size
    for line in (*lines, lines[-1] + (1 if up else -1)):
        probe = probe.flush(page + line * line_size)
    probe = probe.fence().wait(SETTLE_CYCLES).fence().load(beside).fence()
    label = "up" if up else "down"
    for line in lines if hint else ():
        probe = probe.prefetch(page + line * line_size, hint, ip=label).wait(SPACE_CYCLES).fence()
    last = page + lines[-1] * line_size
    for _ in range(AGAIN if hint else 0):
        probe = probe.flush(last).fence().wait(SPACE_CYCLES).fence().load(beside).fence()
        probe = probe.prefetch(last, hint, ip=label).wait(SPACE_CYCLES).fence()
    probe = probe.wait(SETTLE_CYCLES).fence().load(beside).fence()
    return probe.start(number).load(after).stop(number)


def visits_by_prefetches(context: Context, region: Region, hint: str, samples: int) -> tuple[Ticks, Ticks]:
    """Ticks of loads of the second line of new pages after visits of many, with visits made of prefetches and without;
    shapes (n,)."""
    rng = context.rng(45)
    count = max(2, -(-samples // (LAYOUTS * FRESH_PAGES)))
    found: tuple[list[Ticks], list[Ticks]] = ([], [])
    for _ in range(LAYOUTS):
        for each, told in zip((hint, ""), found, strict=True):
            told.append(_timed(context, region, _visits(each, region.line_size), count, rng).ravel())
    return np.concatenate(found[0]), np.concatenate(found[1])


def _visits(hint: str, line_size: int) -> Probe:
    pages = [GROUND + number * TLB_PAGE_BYTES for number in range(VISITED_PAGES + FRESH_PAGES)]
    first, second, beside = (line * line_size for line in (FIRST_LINE, SECOND_LINE, BESIDE_LINE))
    probe = Probe()
    for page in pages:
        probe = probe.flush(page + first).flush(page + second).flush(page + beside)
    probe = probe.fence().wait(SETTLE_CYCLES).fence()
    for page in pages[:VISITED_PAGES]:
        probe = probe.load(page + beside, ip="beside").fence()
        for line, label in ((first, "first"), (second, "second")) if hint else ():
            probe = probe.prefetch(page + line, hint, ip=label).wait(SPACE_CYCLES).fence()
    for number, page in enumerate(pages[VISITED_PAGES:]):
        probe = probe.load(page + beside, ip="beside").fence()
        probe = probe.prefetch(page + first, hint, ip="first") if hint else probe
        probe = probe.wait(SETTLE_CYCLES).fence().load(page + beside, ip="beside").fence()
        probe = probe.start(number).load(page + second).stop(number)
    return probe


def _timed(context: Context, region: Region, probe: Probe, count: int, rng: np.random.Generator) -> Ticks:
    placed = {GROUND: _bases(region, count + 1, rng)}
    return context.machine.run(probe, placed, cpu=context.cpu, warmup=1)


def _bases(region: Region, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Starts of random 64-page stretches among those of targets, shifted by some lines."""
    size = 64 * TLB_PAGE_BYTES
    first = -(-(region.size - min(TARGET_BYTES, region.size // 2)) // size)
    groups = rng.integers(first, region.size // size, count)
    shifts = 2 * rng.integers(0, SHIFTS // 2, count)  # even: a pair of lines stays a pair
    bases: NDArray[np.int64] = region.address + groups * size + shifts * region.line_size
    return bases
