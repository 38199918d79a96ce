"""Whether lines in use that one cache kept are missing from the next, without knowing any set.

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
from setebench.probe import Probe

PUSHING_SHARE, MOST_SHARE = 1.5, 0.5
"""Lines that push those in use out, in capacities of the inner cache, and at most in capacities of the outer one."""

LOOKS, CAPACITIES = 4, 2.0
"""How often lines in use are pushed out, each time after so many capacities of the outer cache have passed, or after
so many rounds of a stream that it holds."""

MISSING_SHARE = 0.5
"""So many of the lines must be missing, above those that are after a stream that the outer cache holds."""


class Pushing(Stream):
    """A stream whose latest lines push out of the inner cache what is in use."""

    def pushed(self, first: int, offsets: Sequence[int], lines: int) -> Cycles:
        """Cycles of loads of the lines at `offsets` to an address, shape (offsets,), behind the latest `lines` lines of
        the stream, walked over again."""
        probe = Probe().chase(WALK, lines).fence()
        for number, offset in enumerate([*offsets, *offsets[:ADDITIONS_PER_STOP]]):
            # warms the translation: so many pages push those in use out of the first TLB
            away = COMPANION_BYTES if offset % TLB_PAGE_BYTES < COMPANION_BYTES else -COMPANION_BYTES
            probe = probe.flush(KEPT + offset + away).fence().start(number)
            probe = probe.load(KEPT + offset) if number < len(offsets) else probe.add(BASELINE_ADDITIONS)
            probe = probe.stop(number)
        places = {WALK: self._order[[(self._at - lines) % len(self)]], KEPT: np.array([first])}
        ticks = self._context.machine.run(probe, places, cpu=self._context.cpu)
        return self._above_additions(ticks, len(offsets)).ravel()


def missing_shares(
    walk: Pushing, targets: tuple[int, Sequence[int]], every: int, lines: tuple[float, float], cycles: Sequence[float]
) -> Cycles:
    """Share of lines in use that the outer cache lacks when the inner one has lost them, in every look, shape (looks,):
    `targets` as for `Stream.kept`, `lines` of both caches, `cycles` latencies from the inner one's on."""
    shares = []
    pushing = int(min(PUSHING_SHARE * lines[0], MOST_SHARE * lines[1]))
    for _ in range(LOOKS):
        walk.kept(*targets, every, CAPACITIES * min(lines[1], len(walk)))
        beyond = (walk.pushed(*targets, pushing) - cycles[1]) / (cycles[2] - cycles[1])
        shares.append(float(np.clip(beyond, -1.0, 2.0).mean()))
    return np.array(shares)


def surely_missing(passing: Cycles, held: Cycles) -> bool:
    """Whether lines are missing after a stream that the outer cache can't hold, and not after one that it holds."""
    error = float(np.hypot(*(each.std(ddof=1) / len(each) ** 0.5 for each in (passing, held))))
    return float(passing.mean() - held.mean()) - 2 * error > MISSING_SHARE
