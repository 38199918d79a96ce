"""Inclusion of the first cache in the second, from whole pages that share sets.

A page is used again after each other one of its group, which is one page more than the sets have ways. The first cache
keeps what is in use; the second doesn't hear of these uses, so the page is the oldest of its sets, and an inclusive one
takes its lines out of the first cache with every line that it gives up. One that includes nothing loses the page once
and then has room for all others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.hierarchy.page_room import PageRoom
from setebench.hierarchy.page_sets import PageGroup
from setebench.infer.page_inclusion import InUse
from setebench.measure.rings import Lines
from setebench.scenario import Context

ROUNDS, WARM_ROUNDS, LOOKS = 24, 8, 5
"""Rounds of a look, and before it, until a cache that includes nothing has room for all others; looks."""

CONTROLS = 4
"""Pages of the group, and of other sets, of which the best kept ones are used."""


def page_in_use(context: Context, room: PageRoom, group: PageGroup, cycles: list[float]) -> InUse:
    """What becomes of a page in use while the others of its group pass, beside one of other sets; `cycles` are
    latencies of the first cache, the second one and behind it."""
    first, second, behind = cycles
    own = _kept_page(context, room, group.pages[-CONTROLS:], group.pages)
    others = group.pages[group.pages != own]
    foreign = _kept_page(context, room, group.ballast[:CONTROLS], others)
    looks, hits = np.empty((LOOKS, 4)), second * (room.page_lines - 1)
    for look in looks:
        used, passing = _passing(context, room, own, others)
        control, free = _passing(context, room, foreign, others)
        alone, _ = _passing(context, room, foreign, others[:0])
        look[:] = (
            (used - control) * len(others) / (behind - first),
            (passing - free) * len(others) / (behind - second),
            (control - alone) / (second - first),
            (free - hits) * len(others) / (behind - second),
        )
    return InUse(*np.median(looks, axis=0).tolist())


def _kept_page(context: Context, room: PageRoom, pages: Lines, group: Lines) -> int:
    """The one of these pages that costs least in use while the others of the group pass. A first cache that guesses
    ways by a hash of addresses takes some pairs of pages for each other, and gives up the one where the other is used;
    an inclusive second one takes lines out of any."""

    def in_use(page: int) -> float:
        return _passing(context, room, page, group[group != page])[0]

    return int(min(pages.tolist(), key=in_use))


def _passing(context: Context, room: PageRoom, used: int, others: Lines) -> tuple[float, float]:
    """Cycles of all lines of a page each time that it is used, and of each of the others, one after the other between
    two uses; each time the middle of all rounds."""
    turns = np.full((ROUNDS + WARM_ROUNDS, max(len(others), 1), 2 if len(others) else 1), used)
    if len(others):
        turns[:, :, 0] = others
    cycles = room.visits(np.append(others, used), turns.ravel()).reshape(turns.shape)[WARM_ROUNDS:]
    middle: NDArray[np.float64] = np.median(cycles, axis=0).mean(axis=0)
    return float(middle[-1]), float(middle[0])
