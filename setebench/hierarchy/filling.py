"""The second cache's ways from filling it while it is empty, whatever it replaces and however sets are chosen.

All lines are flushed, then a walk goes through pages that no cache holds, and stops now and then to time lines that
passed at any time. What happens then is told by the ways alone, not by replacement: see `infer.filling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from setebench.hierarchy.first_level import Geometry
from setebench.hierarchy.recency import Stream
from setebench.infer.filling import Filling, told, whitening
from setebench.machine import Region
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.scenario import Context

MOST_STOPS_PER_ROOM, LEAST_SPACING, FILLED_RATIO, FIRST_RATIO = 40, 600, 1.8, 0.3
"""Stops while as many lines pass as find room, at most, and lines between two stops at least, beside which those that
a stop brings in are few; lines that pass in all, in these; and from where on stops count."""

LATEST_RATIO = 2.0
"""Lines that passed later than so many capacities of the first cache ago may be in that one still."""

LEAST_RATIO = 5.0
"""A second cache that holds fewer times the first one's lines leaves too few to be timed."""

CLEARING_RATIO = 4.0
"""Lines that pass before all are flushed, so that what was in the caches is gone: random replacement keeps 2 in 100."""

MOST_LINES, MOST_FILLS, LEAST_FILLS = 5_000_000, 160, 24

STALL_RATIO = 1.3
"""Loads count at most so many times what the next level takes: an interrupt is no level."""


def with_ways(
    context: Context, region: Region, own: Geometry, room: float, first_lines: int, cycles: Sequence[float]
) -> Geometry:
    """The second cache's geometry with its ways, should filling tell them; about `room` lines find room in it. `cycles`
    are latencies, nearest first.

    Only ways of a size that is known are told: a neighbour on the core takes room away, so that filling alone would
    seem to be that of a smaller cache."""
    if own.size is None:
        return own
    context.progress("how the second cache fills")
    measured = filling(context, region, first_lines, room, cycles[2])
    if measured is None:
        return own
    found = told(measured, own.size // region.line_size, cycles[1], cycles[2], first_lines)
    context.evidence["filling"] = {
        "lines": measured.lines.tolist(),
        "cycles": measured.cycles.round(2).tolist(),
        "ways": found.ways,
    }
    return replace(own, ways=found.ways, ways_reason=found.reason)


def filling(context: Context, region: Region, first_lines: int, room: float, miss: float) -> Filling | None:
    """How a cache fills of which about `room` lines find room, the next one answering after `miss` cycles; None where
    memory or the cache is too small beside the one before it."""
    page_lines = TLB_PAGE_BYTES // region.line_size
    spacing, latest = int(max(room / MOST_STOPS_PER_ROOM, LEAST_SPACING)), int(LATEST_RATIO * first_lines)
    stops = int(FILLED_RATIO * room / spacing)
    if room < LEAST_RATIO * first_lines or 2 * CLEARING_RATIO * room > region.lines:
        return None
    _cleared(context, region, CLEARING_RATIO * room)
    fills = int(np.clip(MOST_LINES / (stops * spacing), LEAST_FILLS, MOST_FILLS))
    timed = np.stack([_filled(context, region, spacing, stops, latest, number) for number in range(fills)])
    cycles = np.minimum(timed, STALL_RATIO * miss)
    lines = spacing * np.arange(1, stops + 1, dtype=np.float64)
    counts = lines > max(FIRST_RATIO * room, 1.5 * latest)
    means = cycles.mean(axis=2)[:, counts]
    return Filling(lines[counts], means.mean(axis=0), whitening(means), latest, page_lines)


def _cleared(context: Context, region: Region, lines: float) -> None:
    walk = Stream(context, region, lines, 98, any_pages=True)
    walk.advance(len(walk))
    walk.flush()


def _filled(
    context: Context, region: Region, spacing: int, stops: int, latest: int, number: int
) -> NDArray[np.float64]:
    """One filling, its lines flushed before, since linking them brought them in, and after; shape (stops, loads)."""
    page_lines = TLB_PAGE_BYTES // region.line_size
    walk = Stream(context, region, spacing * stops + page_lines, 1000 + number, any_pages=True)
    walk.flush()
    timed = walk.filled(spacing, stops, latest)
    walk.flush()
    return timed
