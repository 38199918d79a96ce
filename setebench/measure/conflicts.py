"""Whether lines overfill a set of a cache behind the first: what they cost above a control that overfills none.

The lines belong to one set of the first cache, and so do `flushers`, which push them out of it. Every cost is compared
with that of lines of the same pages at two offsets: the same translations, but no set that gets more than half as many
lines. Two ways to ask:

* `Passes`: the flushers are gone over again and again, then the lines once, and that alone is timed. So few flushers
  empty even a first cache that may replace any line, and how many of them the next cache can hold doesn't matter.
* `Rings`: lines and flushers are chased round and round. On a clock that moves in steps much wider than a miss, only so
  long a time tells one. The flushers must be many, and overfill no set themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from setebench.infer.ticks import mean_ticks
from setebench.machine import Region
from setebench.measure.calibrate import step_ticks
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.rings import Lines, cycles_per_tick, shuffled
from setebench.measure.thinning import MOST_TIMES, Latencies, wanted_repetitions
from setebench.probe import Base, Probe
from setebench.scenario import Context

RING, FLUSHERS = Base("ring"), Base("flushers")

OVERFULL_CYCLES, MISS_SHARE = 0.12, 0.5
"""Cycles per step that tell an overfull set: so many at least, and as many as half a miss per round makes. With one
line too many, two lines of its set at least miss per round, by six cycles or more each. Less may be the first cache's
doing: where it doesn't replace its oldest lines it keeps more of the control's, if it gets half as many per set."""

OTHER_OFFSET_LINES = 8

LEAST_FLUSHERS_PER_WAY = 1.5
"""Flushers per way of the first cache at least: more than it holds, which it loses all of where it goes by age."""

PASS_FLUSHERS_PER_WAY = (4.0, 3.0)
"""More where the next cache holds them: one that takes only what the first gives up holds those alone that are not in
the first, so that a flusher of the lines' set may take a way or not, as the others come before or after it.
Half of them push the other half out of a first cache."""

FLUSHES_PER_WAY = 12
"""Loads of flushers of each of the two offsets, per way of the first cache: where it may replace any line, two in a
thousand are left behind half as many flushers again as it has ways."""

LEAST_PASSES, WARM_PASSES = 8, 8
"""Passes timed at least, and before: where any line of a full set may be replaced, lines that fit find their places."""

UNCLEAR, UNCLEAR_TIMES = (0.4, 1.6), 4
"""Costs between, in those that an overfull set has at least, are measured so often more."""

LEAST_STEPS, TURNS, WARM_ROUNDS = 1024, 5, 4
"""Steps of a ring timed at once, how often, and rounds before."""

FLUSHERS_PER_WAY = (4.0, 3.0, 2.5, 12.0)
"""Flushers of a ring, per way of the first cache: fewer where the second cache is so small that they would overfill it
alone; many where the first one replaces at random, and the control, which has half as many lines in each of its sets,
would else hit more often than the ring."""

DRAWS = 6

GATHER_RATIO = 4
"""Lines tried, for every flusher that is wanted, when they are chosen one by one."""


class Excess(NamedTuple):
    """Cycles that lines cost above their control, per step or per pass, and how many an overfull set costs at least."""

    cycles: float
    least: float = OVERFULL_CYCLES

    @property
    def overfull(self) -> bool:
        """Whether some set was overfull."""
        return self.cycles > self.least


class Conflicts(ABC):
    """Costs of lines of `region`, behind a first cache of `first_ways`."""

    def __init__(self, context: Context, region: Region, first_ways: int, latencies: Latencies) -> None:
        self._context, self._region, self._first_ways = context, region, first_ways
        self._per_tick = cycles_per_tick(context)
        self._miss_cycles = latencies.beyond - latencies.own
        self._latest: Lines = np.zeros(0, dtype=np.int64)

    def excess(self, lines: Lines, flushers: Lines) -> Excess:
        """What `lines` cost behind `flushers`, above their control. The lower of two measurements where it is high: a
        disturbance can only slow them down."""
        first = self._excess(lines, flushers)
        return min(first, self._excess(lines, flushers)) if first.overfull else first

    @abstractmethod
    def flushers(self, pool: Lines, rng: np.random.Generator) -> tuple[Lines, Lines]:
        """Flushers from lines of one set of the first cache, none if there are none; and the rest of the pool."""

    @abstractmethod
    def _excess(self, lines: Lines, flushers: Lines) -> Excess: ...

    def _away(self, line: int) -> int:
        """How far from a line the other offset in its page lies."""
        away = OTHER_OFFSET_LINES * self._region.line_size
        return -away if (line - self._region.address) % TLB_PAGE_BYTES + away >= TLB_PAGE_BYTES else away

    def _empty(self, used: Lines) -> None:
        """Take the lines that were used before, and won't be now, out of every cache: under a tree of bits one of them
        may never be the victim, and a set that would just hold its lines beside an empty way never come to rest."""
        left = np.setdiff1d(self._latest, used)
        if len(left):
            self._context.machine.run(Probe().flush(RING), {RING: left}, cpu=self._context.cpu)
        self._latest = used


class Passes(Conflicts):
    """Passes over the lines, each behind the flushers; see above."""

    def __init__(self, context: Context, region: Region, first_ways: int, latencies: Latencies) -> None:
        super().__init__(context, region, first_ways, latencies)
        self._step = step_ticks(context)
        wanted = wanted_repetitions(self._step * self._per_tick, latencies)
        self.possible = wanted <= MOST_TIMES
        self._times = max(LEAST_PASSES, int(min(wanted, MOST_TIMES)))

    def flushers(self, pool: Lines, rng: np.random.Generator) -> tuple[Lines, Lines]:
        """As many as overfill no set, as far as one half of them behind the other tells; at last so few that they
        overfill hardly any. Should they, it is none of the lines' sets, or is found with it."""
        for per_way in PASS_FLUSHERS_PER_WAY:
            count = int(per_way * self._first_ways)
            for _ in range(DRAWS):
                pool = rng.permutation(pool)
                one, two = pool[: count // 2], pool[count // 2 : count]
                if not (self.excess(one, two).overfull or self.excess(two, one).overfull):
                    return pool[:count], pool[count:]
        count = int(LEAST_FLUSHERS_PER_WAY * self._first_ways)
        return pool[:count], pool[count:]

    def excess(self, lines: Lines, flushers: Lines) -> Excess:
        """The same; where that is near what an overfull set costs at least, the median of several. A set of a cache
        that takes only what the first gives up misses once in a pass, which a clock tells from none now and then."""
        found = super().excess(lines, flushers)
        if not UNCLEAR[0] * found.least < found.cycles < UNCLEAR[1] * found.least:
            return found
        more = [self._excess(lines, flushers).cycles for _ in range(UNCLEAR_TIMES)]
        return Excess(float(np.median([found.cycles, *more])), found.least)

    def _excess(self, lines: Lines, flushers: Lines) -> Excess:
        if not len(lines) or not len(flushers):
            return Excess(0.0)
        order, away = shuffled(self._context, lines), self._away(int(lines[0]))
        both = np.concatenate([flushers, flushers + away])
        control = order + np.where(np.arange(len(order)) % 2, away, 0)
        own, plain = self._ticks(order, both), self._ticks(control, both)
        least = max(OVERFULL_CYCLES * len(lines), MISS_SHARE * self._miss_cycles)
        return Excess((own - plain) * self._per_tick, least)

    def _ticks(self, order: Lines, flushers: Lines) -> float:
        """Mean ticks of a pass."""
        machine, cpu = self._context.machine, self._context.cpu
        self._empty(np.concatenate([order, flushers]))
        machine.link(self._region, order)
        machine.link(self._region, flushers)
        loads = len(flushers) * -(-2 * FLUSHES_PER_WAY * self._first_ways // len(flushers))
        probe = Probe().chase(FLUSHERS, loads).fence().start().chase(RING, len(order)).stop()
        count = self._times + WARM_PASSES
        begins = {RING: np.full(count, order[0]), FLUSHERS: np.full(count, flushers[0])}
        ticks = machine.run(probe, begins, cpu=cpu, warmup=WARM_PASSES).ravel()
        return mean_ticks(ticks, self._step)


class Rings(Conflicts):
    """Rings over lines and flushers; see above."""

    # lines first, flushers behind them: in a second cache that takes only what the first one gives up, the lines are
    # all in it when their turn comes
    def _excess(self, lines: Lines, flushers: Lines) -> Excess:
        ring = np.concatenate([shuffled(self._context, lines), flushers])
        control = ring + np.where(np.arange(len(ring)) % 2, self._away(int(ring[0])), 0)
        own, plain = self._ticks(ring), self._ticks(control)
        least = max(OVERFULL_CYCLES, MISS_SHARE * self._miss_cycles / len(ring))
        return Excess((own - plain) * self._per_tick, least)

    def _ticks(self, ring: Lines) -> float:
        """Ticks per step."""
        machine, cpu = self._context.machine, self._context.cpu
        self._empty(ring)
        machine.link(self._region, ring)
        steps = max(LEAST_STEPS, 2 * len(ring))
        warm = -(-WARM_ROUNDS * len(ring) // steps)
        starts = ring[(np.arange(TURNS + warm) * steps) % len(ring)]
        ticks = machine.run(Probe().start().chase(RING, steps).stop(), {RING: starts}, cpu=cpu, warmup=warm)
        return float(np.median(ticks)) / steps

    def flushers(self, pool: Lines, rng: np.random.Generator) -> tuple[Lines, Lines]:
        """Such as overfill no set, and the first cache keeps none of, if there are some."""
        none: Lines = pool[:0]
        second_best: tuple[Lines, Lines] | None = None
        for per_way in FLUSHERS_PER_WAY:
            count = int(per_way * self._first_ways)
            for _ in range(DRAWS):
                pool = rng.permutation(pool)
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
