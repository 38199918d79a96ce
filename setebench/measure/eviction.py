"""Lines that share a set of a cache behind the first, found by timing alone.

Addresses say nothing of such sets: they are chosen by physical addresses that a process can't see. So lines of one set
of the first cache, at one offset of many pages, are chased round and round; the chase slows down when a set of the
cache is overfull, and lines that can be left out without ending that are left out one after the other. What is left is
one line more than the set has ways. Every chase is compared with one over the same pages whose lines lie at two
offsets: the same translations, but no set that gets more than half as many lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.machine import Region
from setebench.measure.rings import Lines, cycles_per_tick, shuffled
from setebench.measure.thinning import Latencies, Thinning
from setebench.probe import Base, Probe
from setebench.scenario import Context

RING = Base("ring")
PAGE = 4096

OVERFULL_CYCLES, MISS_SHARE = 0.12, 0.5
"""Cycles per step that tell an overfull set: so many at least, and as many as half a miss per round makes. With one
line too many, two lines of its set at least miss per round, by six cycles or more each, in rings of less than a hundred
lines at the end. Less may be the first cache's doing: where it doesn't replace its oldest lines it keeps more of the
control's, of which it gets half as many per set."""

LEAST_STEPS, TURNS, WARM_ROUNDS = 1024, 5, 4

FLUSHERS_PER_WAY = (4.0, 3.0, 2.5, 12.0)
"""Lines that push others out of the first cache, per way of it: fewer where the second cache is so small that they
would overfill it alone; many where the first one replaces at random, and the control, which has half as many lines in
each of its sets, would else hit more often than the ring."""

DRAWS = 6
CONFIRMING_PER_WAY = 1.5
"""Flushers per way of the first cache that must be left when those of the set itself are taken away."""

GATHER_RATIO = 4
"""Lines tried, for every flusher that is wanted, when they are chosen one by one."""

FIRST_LINES, GROWTH, MOST_LINES = 12, 1.4, 800
"""Lines tried until a set is overfull. More would make the steps of a single set vanish among the others."""

OTHER_OFFSET_LINES = 8


class Excess(NamedTuple):
    """Cycles per step that a ring costs above its control, and how many an overfull set costs at least."""

    cycles: float
    least: float = OVERFULL_CYCLES

    @property
    def overfull(self) -> bool:
        """Whether some set was overfull."""
        return self.cycles > self.least


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
        self, context: Context, region: Region, first_ways: int, latencies: Latencies, way_bytes: int = PAGE
    ) -> None:
        self._context, self._region, self._first_ways = context, region, first_ways
        self._rng = context.rng(71)
        self._stride = max(PAGE, way_bytes)
        self._thinning = Thinning(context, region, latencies, self._stride)
        self._per_tick = cycles_per_tick(context)
        self._miss_cycles = latencies.beyond - latencies.own
        self._latest: Lines = np.zeros(0, dtype=np.int64)

    def find(self) -> Congruent | None:
        """One set's lines, or None where no ring of a reasonable length overfills a set, or not clearly."""
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
        """The same if enough flushers are left, else with more of them, or None: with too few, lines of other sets seem
        to belong to this one because they help to push the others out of the first cache."""
        wanted = int(CONFIRMING_PER_WAY * self._first_ways) - len(found.flushers)
        if wanted <= 0:
            return found
        pool = self._pool(self._offset(found.lines[0]))
        flushers = found.flushers
        for line in pool[~np.isin(pool, np.concatenate([found.lines, flushers]))][: GATHER_RATIO * wanted]:
            more = np.append(flushers, line)
            if not self.excess(found.lines[:-1], more).overfull:
                flushers = more
            if len(flushers) == len(found.flushers) + wanted:
                again = self._critical(found.lines, flushers)
                return again if again is not None and len(again.lines) == len(found.lines) else None
        return None

    def _starts(self) -> Iterator[tuple[Lines, Lines]]:
        """Lines that overfill a set, with flushers: first as many random ones as it takes, which is not many unless the
        index is hashed; else what is left of very many."""
        flushers, rest = self._flushers(self._pool())
        start = self._first_overfull(rest, flushers) if len(flushers) else None
        if start is not None:
            yield start, flushers
        for lines in self._thinning.few():
            pool = self._pool(self._offset(lines[-1]))
            flushers, _ = self._flushers(pool[~np.isin(pool, lines)])
            if len(set((lines % PAGE).tolist())) > 1:  # pairs of lines lie in two sets of the first cache
                flushers = np.concatenate([flushers, flushers ^ self._region.line_size])
            if len(flushers) and self.excess(lines, flushers).overfull:
                yield lines, flushers

    def excess(self, lines: Lines, flushers: Lines) -> Excess:
        """Cycles per step of a ring over `lines`, then `flushers`, above its control. The lower of two measurements
        where it is high: a disturbance can only slow a ring down."""
        first = self._excess(lines, flushers)
        return min(first, self._excess(lines, flushers)) if first.overfull else first

    # lines first, flushers behind them: in a second cache that takes only what the first one gives up, the lines are
    # all in it when their turn comes
    def _excess(self, lines: Lines, flushers: Lines) -> Excess:
        ring = np.concatenate([shuffled(self._context, lines), flushers])
        away = OTHER_OFFSET_LINES * self._region.line_size
        other = np.where(np.arange(len(ring)) % 2, away, 0)
        high = (int(ring[0]) - self._region.address) % PAGE + away >= PAGE
        control = ring - other if high else ring + other
        own, plain = self._ticks(ring), self._ticks(control)
        least = max(OVERFULL_CYCLES, MISS_SHARE * self._miss_cycles / len(ring))
        return Excess((own - plain) * self._per_tick, least)

    def _ticks(self, ring: Lines) -> float:
        machine, cpu = self._context.machine, self._context.cpu
        # under a tree of bits a line of the ring before may never be the victim, and a set that would just hold its
        # lines beside an empty way never come to rest
        left = np.setdiff1d(self._latest, ring)
        if len(left):
            machine.run(Probe().flush(RING), {RING: left}, cpu=cpu)
        self._latest = ring
        machine.link(self._region, ring)
        steps = max(LEAST_STEPS, 2 * len(ring))
        warm = -(-WARM_ROUNDS * len(ring) // steps)
        starts = ring[(np.arange(TURNS + warm) * steps) % len(ring)]
        ticks = machine.run(Probe().start().chase(RING, steps).stop(), {RING: starts}, cpu=cpu, warmup=warm)
        return float(np.median(ticks)) / steps

    def _offset(self, line: int) -> int:
        """Where the line lies among those of a way of the first cache."""
        return (int(line) - self._region.address) % self._stride

    def _pool(self, offset: int | None = None) -> Lines:
        """Lines of one set of the first cache, at an offset that is random unless given, in random order."""
        if offset is None:
            offset = int(self._rng.integers(0, self._stride // self._region.line_size)) * self._region.line_size
        number = self._rng.permutation(self._region.size // self._stride)[: 2 * MOST_LINES]
        return (self._region.address + number * self._stride + offset).astype(np.int64)

    def _flushers(self, pool: Lines) -> tuple[Lines, Lines]:
        """Lines that together overfill no set, and the rest of the pool; such as the first cache keeps none of, if
        there are some."""
        none: Lines = pool[:0]
        second_best: tuple[Lines, Lines] | None = None
        for per_way in FLUSHERS_PER_WAY:
            count = int(per_way * self._first_ways)
            for _ in range(DRAWS):
                pool = self._rng.permutation(pool)
                excess = self.excess(none, pool[:count])
                if excess.cycles < OVERFULL_CYCLES:
                    return pool[:count], pool[count:]
                if not excess.overfull:
                    second_best = second_best or (pool[:count], pool[count:])
                    break
        return second_best or self._gathered(pool, int(min(FLUSHERS_PER_WAY) * self._first_ways))

    def _gathered(self, pool: Lines, count: int) -> tuple[Lines, Lines]:
        """The same, one by one, where so many random lines nearly always overfill a set of a small cache."""
        kept = pool[:0]
        for line in pool[: GATHER_RATIO * count]:
            more = np.append(kept, line)
            if not self.excess(pool[:0], more).overfull:
                kept = more
            if len(kept) == count:
                return kept, pool[~np.isin(pool, kept)]
        return pool[:0], pool

    def _first_overfull(self, pool: Lines, flushers: Lines) -> Lines | None:
        count = FIRST_LINES
        while count <= min(MOST_LINES, len(pool)):
            if self.excess(pool[:count], flushers).overfull:
                return pool[:count]
            count = int(count * GROWTH) + 1
        return None

    def _reduced(self, lines: Lines, flushers: Lines) -> Lines:
        """Leave out as many as can be, in chunks of half, a quarter, ... of them, at last one by one."""
        chunk = max(1, len(lines) // 2)
        while True:
            before, at = len(lines), 0
            while at < len(lines):
                rest = np.delete(lines, slice(at, at + chunk))
                if len(rest) and self.excess(rest, flushers).overfull:
                    lines = rest
                else:
                    at += chunk
            if chunk == 1 and len(lines) == before:
                return lines
            chunk = max(1, min(chunk // 2, len(lines) // 2))

    def _critical(self, lines: Lines, flushers: Lines) -> Congruent | None:
        """All lines of the set, those among the flushers too: leaving out any one of them ends the conflict."""
        if not self.excess(lines, flushers).overfull:
            return None
        if any(self.excess(np.delete(lines, n), flushers).overfull for n in range(len(lines))):
            return None
        own: NDArray[np.bool_] = np.array(
            [not self.excess(lines, np.delete(flushers, n)).overfull for n in range(len(flushers))]
        )
        return Congruent(np.concatenate([lines, flushers[own]]), flushers[~own])
