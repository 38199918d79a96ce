"""The second cache's ways from filling it while it is empty, whatever it replaces and however sets are chosen.

All lines are flushed, then a walk goes through pages that no cache holds, and stops now and then to time lines that
passed at any time. What happens then is told by the ways alone, not by replacement: see `infer.filling`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from setebench.hierarchy.first_level import Geometry
from setebench.hierarchy.recency import TARGETS_PER_STOP, Stream
from setebench.infer.filling import Filling, Holding, sizes_told, told, whitening
from setebench.machine import Region
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.scenario import Context

MOST_STOPS_PER_ROOM, LEAST_SPACING, FILLED_RATIO, FIRST_RATIO = 40, 600, 1.8, 0.3
"""Stops while as many lines pass as find room, at most, and lines between two stops at least, beside which those that
a stop brings in are few; lines that pass in all, in these; and from where on stops count."""

LATEST_RATIO = 2.0
"""Lines that passed later than so many capacities of the first cache ago may be in that one still."""

LEAST_RATIO = 7.5
"""A second cache that holds fewer times the first one's lines leaves too few to be timed, and if it gets lines only as
the first gives them up, it fills so much later than it is asked that the curve looks like one of more ways."""

CLEARING_RATIO = 4.0
"""Lines that pass before all are flushed, so that what was in the caches is gone: random replacement keeps 2 in 100."""

MOST_LINES, MOST_FILLS, LEAST_FILLS = 5_000_000, 160, 24
MOST_ROUNDS = 6
"""So often so many lines pass in all, or so many fillings are done: again while several numbers of ways come near."""

THIRD_FILLS, MOST_THIRD_LINES, LEAST_THIRD_RATIO = 8, 40_000_000, 3.0
"""Fillings of a third cache, whose ways are known, so that few may tell its size: so many again while they don't, until
so many lines have passed. It holds so many times the second one's lines at least, or too few are left to be timed."""

THIRD_STOPS, THIRD_SPACING = 3, 1000
"""Stops of its fillings that are one point of the curve, as many points as else; and lines between two stops at least.
A walk through so large a cache takes far longer than a stop."""

STALL_RATIO = 1.3
"""Loads count at most so many times what the next level takes: an interrupt is no level."""


def with_ways(
    context: Context,
    region: Region,
    own: Geometry,
    room: float,
    first_lines: int,
    cycles: Sequence[float],
    sizes: Collection[int] = (),
) -> Geometry:
    """The second cache's geometry with its ways, should filling tell them; about `room` lines find room in it. `cycles`
    are latencies, nearest first. Where its size isn't known, it is one of `sizes`, bytes, and told if only one of these
    explains how the cache fills.

    Only ways of a size that is known, or that something else tells as well, are told: a neighbour on the core takes
    room away, so that filling alone would seem to be that of a smaller cache."""
    sizes = [own.size] if own.size is not None else sorted(sizes)
    if not sizes:
        return own
    context.progress("how the second cache fills")
    fills = _Fills(context, region, first_lines, room)
    if not fills.possible:
        return own
    for _ in range(MOST_ROUNDS):
        fills.more()
        measured = fills.measured(cycles[2])
        found = {size: told(measured, size // region.line_size, cycles[1], cycles[2], first_lines) for size in sizes}
        if not any(each.close for each in found.values()):
            break
    possible = {size: each for size, each in found.items() if each.ways is not None or each.close}
    ways = next(iter(possible.values())).ways if len(possible) == 1 else None
    context.evidence["filling"] = {
        "lines": measured.lines.tolist(),
        "cycles": measured.cycles.round(2).tolist(),
        "ways": ways,
    }
    if own.size is None and len(possible) == 1:
        own = replace(own, whole_bytes=next(iter(possible)))
    reasons = [each.reason for each in (possible or found).values() if each.reason]
    reason = reasons[0] if reasons else "an empty cache fills as one of several sizes does"
    return replace(own, ways=ways, ways_reason="" if ways is not None else reason)


def third_size(
    context: Context,
    region: Region,
    ways: int,
    held: tuple[float, float],
    holdings: Collection[Holding],
    orders: Collection[bool],
) -> int | None:
    """Bytes of a third cache of so many ways, the one of `holdings` that goes with how it fills, or None. `held` are
    the lines that the second cache holds and that find room up to the third; `orders` as for `sizes_told`.

    Lines that a cache only gets when the one before gives them up come later, so its curve bends elsewhere: what
    differs in size but not in what is held up to it, is told apart by that."""
    second, room = held
    fills = _Fills(context, region, int(second), room, whole=True)
    if not (holdings and fills.possible):
        return None
    *_, hit, miss = context.calibration.level_cycles.values()
    found: list[int] = []
    while len(found) != 1 and fills.passed < MOST_THIRD_LINES:
        context.progress(f"how the third cache fills: {fills.passed / MOST_THIRD_LINES:.0%} of the lines that may pass")
        fills.more(THIRD_FILLS)
        measured = fills.measured(miss, hit)
        found = sizes_told(measured, ways, holdings, hit, miss, orders)
    context.evidence["third_filling"] = {
        "lines": measured.lines.tolist(),
        "cycles": measured.cycles.round(2).tolist(),
        "sizes": [lines * region.line_size for lines in found],
    }
    return found[0] * region.line_size if len(found) == 1 else None


class _Fills:
    """Fillings of a cache in which about `room` lines find room, behind one of `first_lines`. `whole`: so large a cache
    that all of the region is flushed first, not a walk that leaves little of what was there."""

    def __init__(self, context: Context, region: Region, first_lines: int, room: float, *, whole: bool = False) -> None:
        self._context, self._region, self._room, self._whole = context, region, room, whole
        self._per_point, least_spacing = (THIRD_STOPS, THIRD_SPACING) if whole else (1, LEAST_SPACING)
        self._spacing = int(max(room / MOST_STOPS_PER_ROOM / self._per_point, least_spacing))
        self._latest = int(LATEST_RATIO * first_lines)
        self._stops = int(FILLED_RATIO * room / self._spacing / self._per_point) * self._per_point
        self._timed: list[NDArray[np.float64]] = []
        # a line of each page that a region prefetcher has learned must not be loaded before another one is timed
        self._page_lines = TLB_PAGE_BYTES // region.line_size - int(whole)
        least, most = (LEAST_THIRD_RATIO, FILLED_RATIO) if whole else (LEAST_RATIO, 2 * CLEARING_RATIO)
        page_share = self._page_lines * region.line_size / TLB_PAGE_BYTES
        self.possible = room > least * first_lines and most * room < page_share * region.lines

    @property
    def passed(self) -> int:
        """Lines that passed in all fillings."""
        return len(self._timed) * self._spacing * self._stops

    def more(self, fills: int = 0) -> None:
        """Fill it some more times, so often or as often as is worth it."""
        if not self._timed:
            self._clear()
        fills = fills or int(np.clip(MOST_LINES / (self._stops * self._spacing), LEAST_FILLS, MOST_FILLS))
        for _ in range(fills):
            self._timed.append(self._filled(1000 + len(self._timed)))

    def measured(self, miss: float, hit: float | None = None) -> Filling:
        """What the fillings told, the next level answering after `miss` cycles. With `hit`, cycles of the cache's own
        loads, timed ones that missed count as lines put in."""
        means = np.minimum(np.stack(self._timed), STALL_RATIO * miss).mean(axis=2)
        lines = self._spacing * np.arange(1, self._stops + 1, dtype=np.float64)
        if hit is not None:
            lost = np.clip((means.mean(axis=0) - hit) / (miss - hit), 0.0, 1.0)
            lines += TARGETS_PER_STOP * (np.cumsum(lost) - lost)
        lines = lines.reshape(-1, self._per_point).mean(axis=1)
        means = means.reshape(len(means), len(lines), self._per_point).mean(axis=2)
        counts = lines > max(FIRST_RATIO * self._room, 1.5 * self._latest)
        means = means[:, counts]
        return Filling(lines[counts], means.mean(axis=0), whitening(means), self._latest, self._page_lines)

    def _clear(self) -> None:
        lines = self._region.lines if self._whole else CLEARING_RATIO * self._room
        walk = Stream(self._context, self._region, lines, 98, any_pages=True)
        if not self._whole:
            walk.advance(len(walk))
        walk.flush()

    def _filled(self, purpose: int) -> NDArray[np.float64]:
        """One filling, its lines flushed before, as linking them brought them in, and after; shape (stops, loads)."""
        pages = self._spacing * self._stops // self._page_lines + 1
        lines = pages * TLB_PAGE_BYTES // self._region.line_size
        walk = Stream(self._context, self._region, lines, purpose, any_pages=True, spare=self._whole)
        walk.flush()
        timed = walk.filled(self._spacing, self._stops, self._latest)
        walk.flush()
        return timed
