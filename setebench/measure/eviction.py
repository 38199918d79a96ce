"""Lines that share a set of a cache behind the first, found by timing alone.

Addresses say nothing of such sets: they are chosen by physical addresses that a process can't see. So lines of one set
of the first cache, at one offset of many pages, are used again and again, always behind others that push them out of
it; that takes longer when a set of the cache is overfull (`measure.conflicts`), and lines that can be left out without
ending that are left out one after the other. What is left is one line more than the set has ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region
from setebench.measure.conflicts import Conflicts, Passes, Rings
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.rings import Lines
from setebench.measure.thinning import Latencies, Thinning
from setebench.scenario import Context

CONFIRMING_PER_WAY, GATHERED, GATHER_RATIO = 4.0, 4, 6
"""Flushers of other sets that are wanted for a set that was found, per way of the first cache; so many are tried at
once, and so many in all for each that is wanted."""

FIRST_LINES, GROWTH, MOST_LINES = 12, 1.4, 800
"""Lines tried until a set is overfull. More would make the steps of a single set vanish among the others."""

MOST_TRIALS = 600
"""Trials of a reduction about: three times as many as lines of one set among the most that are tried take. Where it
takes more, what is asked is not clear, and a set hardly comes of it."""


@dataclass(frozen=True)
class Congruent:
    """`lines` fall into one set and are one more than it holds; `flushers`, in the order of use, belong to other sets
    and push them out of the first cache."""

    lines: Lines
    flushers: Lines

    @property
    def ways(self) -> int:
        """Ways of the cache."""
        return len(self.lines) - 1


class Sets:
    """Searches for congruent lines of the second cache in `region`, the first cache having `first_ways` ways of
    `way_bytes` each. Lines at one offset of pages share a set of the first cache where its ways are no larger than a
    page; else those a multiple of a way apart do."""

    def __init__(
        self, context: Context, region: Region, first_ways: int, latencies: Latencies, way_bytes: int = TLB_PAGE_BYTES
    ) -> None:
        self._context, self._region, self._first_ways = context, region, first_ways
        self._rng = context.rng(71)
        self._stride = max(TLB_PAGE_BYTES, way_bytes)
        self._thinning = Thinning(context, region, latencies, self._stride)
        passes = Passes(context, region, first_ways, latencies)
        rings = Rings(context, region, first_ways, latencies)
        self._ways_to_ask: list[Conflicts] = [passes, rings] if passes.possible else [rings]

    @property
    def _conflicts(self) -> Conflicts:
        return self._ways_to_ask[0]

    def find(self) -> Congruent | None:
        """One set's lines, or None where no lines of a reasonable number overfill a set, or not clearly; the next
        search then asks in another way."""
        found = self._found()
        if found is None:
            self._ways_to_ask = [*self._ways_to_ask[1:], *self._ways_to_ask[:1]]
        return found

    def _found(self) -> Congruent | None:
        for lines, flushers in self._starts():
            found = self._critical(self._reduced(lines, flushers), flushers)
            found = None if found is None else self._together(found)
            found = None if found is None else self._confirmed(found)
            if found is not None:
                return found
        return None

    def _together(self, found: Congruent) -> Congruent | None:
        """The set's lines once more, now that they follow each other and all others come behind them; reduced anew
        where some prove needless.

        In a second cache that takes only what the first one gives up, a line of the set counts only while it isn't
        among the latest of the ring. With some of them strewn among the flushers, any flusher that is left out moves
        these nearer to each other, may end the conflict, and seems to belong to the set."""
        again = self._critical(found.lines, found.flushers)
        return again or self._critical(self._reduced(found.lines, found.flushers), found.flushers)

    def _confirmed(self, found: Congruent) -> Congruent | None:
        """The same with as many flushers as are wanted, of other sets as far as all lines but one tell; None where so
        many aren't found, or tell another number of lines. With too few, lines of other sets seem to belong to this one
        because they help to push the others out of the first cache; or one of two lines of this set, which the first
        cache holds in turns, takes a way all the time, so that it seems to have one less."""
        wanted = int(CONFIRMING_PER_WAY * self._first_ways)
        pool = self._pool(self._offset(found.lines[0]))
        pool = pool[~np.isin(pool, np.concatenate([found.lines, found.flushers]))]
        flushers = found.flushers
        for begin in range(0, GATHER_RATIO * wanted, GATHERED):
            if len(flushers) >= wanted:
                break
            more = np.append(flushers, pool[begin : begin + GATHERED])
            if not self._overfull(found.lines[:-1], more):
                flushers = more
        if len(flushers) < wanted:
            return None
        again = self._critical(found.lines, flushers)
        return again if again is not None and len(again.lines) == len(found.lines) else None

    def _starts(self) -> Iterator[tuple[Lines, Lines]]:
        """Lines that overfill a set, with flushers: first as many random ones as it takes, which is not many unless the
        index is hashed; else what is left of very many."""
        flushers, rest = self._conflicts.flushers(self._pool(), self._rng)
        start = self._first_overfull(rest, flushers) if len(flushers) else None
        if start is not None:
            yield start, flushers
        for lines in self._thinning.few():
            pool = self._pool(self._offset(lines[-1]))
            flushers, _ = self._conflicts.flushers(pool[~np.isin(pool, lines)], self._rng)
            if len(set((lines % TLB_PAGE_BYTES).tolist())) > 1:  # pairs of lines lie in two sets of the first cache
                flushers = np.concatenate([flushers, flushers ^ self._region.line_size])
            if len(flushers) and self._overfull(lines, flushers):
                yield lines, flushers

    def _overfull(self, lines: Lines, flushers: Lines) -> bool:
        return self._conflicts.excess(lines, flushers).overfull

    def _offset(self, line: int) -> int:
        """Where the line lies among those of a way of the first cache."""
        return (int(line) - self._region.address) % self._stride

    def _pool(self, offset: int | None = None) -> Lines:
        """Lines of one set of the first cache, at an offset that is random unless given, in random order."""
        if offset is None:
            offset = int(self._rng.integers(0, self._stride // self._region.line_size)) * self._region.line_size
        number = self._rng.permutation(self._region.size // self._stride)[: 2 * MOST_LINES]
        return (self._region.address + number * self._stride + offset).astype(np.int64)

    def _first_overfull(self, pool: Lines, flushers: Lines) -> Lines | None:
        count = FIRST_LINES
        while count <= min(MOST_LINES, len(pool)):
            if self._overfull(pool[:count], flushers):
                return pool[:count]
            count = int(count * GROWTH) + 1
        return None

    def _reduced(self, lines: Lines, flushers: Lines) -> Lines:
        """Leave out as many as can be, in chunks of half, a quarter, ... of them, at last one by one."""
        chunk, trials = max(1, len(lines) // 2), 0
        while True:
            before, at = len(lines), 0
            while at < len(lines) and trials <= MOST_TRIALS:
                trials += 1
                rest = np.delete(lines, slice(at, at + chunk))
                if len(rest) and self._overfull(rest, flushers):
                    lines = rest
                else:
                    at += chunk
            if (chunk == 1 and len(lines) == before) or trials > MOST_TRIALS:
                return lines
            chunk = max(1, min(chunk // 2, len(lines) // 2))

    def _critical(self, lines: Lines, flushers: Lines) -> Congruent | None:
        """All lines of the set, those among the flushers too: leaving out any one of them ends the conflict. None where
        that isn't so of the lines, or too few of the flushers, as where they overfill the set without any of these."""
        if not self._overfull(lines, flushers):
            return None
        if any(self._overfull(np.delete(lines, n), flushers) for n in range(len(lines))):
            return None
        own: NDArray[np.bool_] = np.array(
            [not self._overfull(lines, np.delete(flushers, n)) for n in range(len(flushers))]
        )
        found = Congruent(np.concatenate([lines, flushers[own]]), flushers[~own])
        return found if found.ways > 0 else None
