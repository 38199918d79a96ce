"""Lines in use beside a stream; whether those that one cache kept are missing from the next, without knowing any set.

That no line in use is lost while a stream passes does not tell an outer cache that doesn't include the inner one from
one that spares what that one holds. But from an inclusive cache no line is missing that the inner one holds. So lines
that were in use all the time are pushed out of the inner cache, by lines of the stream that passed just before, for
those are in the outer one already and evict nothing from it; then they are timed. Where the outer one doesn't have
them, it doesn't include the inner one. An exclusive one takes what that gives up, so that it has them tells nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from setebench.hierarchy.recency import ADDITIONS_PER_STOP, COMPANION_BYTES, KEPT, WALK, Stream
from setebench.infer.inclusion import Cycles
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.placing import BASELINE_ADDITIONS
from setebench.measure.rings import Lines
from setebench.probe import Probe

PUSHING_SHARE, MOST_SHARE = 1.5, 0.5
"""Lines that push those in use out, in capacities of the inner cache, and at most in capacities of the outer one."""

LOOKS, CAPACITIES = 5, 3.0
"""How often lines in use are pushed out, each time after so many capacities of the outer cache have passed, or after
so many rounds of a stream that it holds. The first time doesn't count: the outer cache is still full of what was there
before, and gives up lines in use for a stream that it will hold."""

MISSING_SHARE = 0.5
"""So many of the lines must be missing, above those that are after a stream that the outer cache holds."""


class InUse(Stream):
    """A stream beside lines in use, to which it never comes.

    Their pages are translated before they are timed. Else they would wait for that behind many pages of the stream and
    not behind few, as if the inner cache had given them up. Nothing else in these pages is loaded: a prefetcher that
    learns what is used together would bring them back."""

    def kept(self, first: int, offsets: Sequence[int], every: int, lines: float) -> Cycles:
        """Cycles of loads of the lines at `offsets` to an address, after every so many lines of the walk, until so many
        have passed; shape (stops, offsets)."""
        stops = max(1, int(lines) // every)
        starts = self._at + every * np.arange(stops)
        self._at += every * stops
        return self._uses(Probe().chase(WALK, every), first, offsets, starts)

    def pushed(self, first: int, offsets: Sequence[int], lines: int) -> Cycles:
        """The same, shape (offsets,), behind the latest `lines` lines of the stream, walked over again."""
        return self._uses(Probe().chase(WALK, lines), first, offsets, np.array([self._at - lines])).ravel()

    def _uses(self, walk: Probe, first: int, offsets: Sequence[int], starts: Lines) -> Cycles:
        probe = walk.fence()
        for number, offset in enumerate([*offsets, *offsets[:ADDITIONS_PER_STOP]]):
            away = COMPANION_BYTES if offset % TLB_PAGE_BYTES < COMPANION_BYTES else -COMPANION_BYTES
            probe = probe.flush(KEPT + offset + away).fence().start(number)
            probe = probe.load(KEPT + offset) if number < len(offsets) else probe.add(BASELINE_ADDITIONS)
            probe = probe.stop(number)
        places = {WALK: self._order[starts % len(self)], KEPT: np.full(len(starts), first)}
        return self._above_additions(self._context.machine.run(probe, places, cpu=self._context.cpu), len(offsets))


def missing_shares(
    walk: InUse, targets: tuple[int, Sequence[int]], every: int, lines: tuple[float, float], cycles: Sequence[float]
) -> Cycles:
    """Share of lines in use that the outer cache lacks when the inner one has lost them, in every look, shape (looks,):
    `targets` as for `Stream.kept`, `lines` of both caches, `cycles` latencies from the inner one's on."""
    shares = []
    pushing = int(min(PUSHING_SHARE * lines[0], MOST_SHARE * lines[1]))
    for _ in range(LOOKS):
        walk.kept(*targets, every, CAPACITIES * min(lines[1], len(walk)))
        beyond = (walk.pushed(*targets, pushing) - cycles[1]) / (cycles[2] - cycles[1])
        shares.append(float(np.clip(beyond, -1.0, 2.0).mean()))
    return np.array(shares[1:])


def surely_missing(passing: Cycles, held: Cycles) -> bool:
    """Whether lines are missing after a stream that the outer cache can't hold, and not after one that it holds.

    Shares below zero are of lines that the inner cache still had, and don't make others seem missing."""
    error = float(np.hypot(*(each.std(ddof=1) / len(each) ** 0.5 for each in (passing, held))))
    return float(passing.mean() - max(held.mean(), 0.0)) - 2 * error > MISSING_SHARE
