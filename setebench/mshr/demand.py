"""Misses of loads and stores: how many are in flight, and whether level 1 or something behind it limits them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.infer.in_flight import Blocked
from setebench.infer.steps import Staircase, calm_level
from setebench.infer.ticks import over_replicates
from setebench.mshr.climber import MOST, Climber

WAVES = 3

CHASE_SHARE, MOST_STEPS, HIDES_TWO = 1.6, 400, 1.25
"""The chase behind a hit takes so many times as long as a miss; its most steps (where they don't fit into the core's
window, the last ones begin when the first misses have left it); and what it takes at least to show behind two waves of
misses, which is what more misses than level 2 has entries take."""

NEAR_RUNS, NEAR_BATCHES, NEAR_MOST = 6, 4, 24
"""Runs whose mean tells the latency of the line of the hit, how many such means are taken at a time, and at most."""

AT_JUMP_ROUNDS = 12
"""Rounds in which a hit behind as many misses as can be in flight is timed, and behind one less."""


class Demand:
    """Staircases of loads and stores, and the other ways to their number."""

    def __init__(self, climber: Climber) -> None:
        self._climber = climber

    def loads(self) -> Staircase:
        """Loads from memory."""
        return self._climber.climb("loads", self._climber.volleys.loads, 1)

    def stores(self) -> Staircase:
        """Stores to memory."""
        return self._climber.climb("stores", self._climber.volleys.stores, 1)

    def blocked(self, walk_bytes: float, loads: Staircase) -> Blocked:
        """How much longer misses with a hit in level 2 behind them take than the longer of both; and whether the line
        of the hit came from level 2."""
        memory, volleys = self._climber.cycles["memory"], self._climber.volleys
        step = volleys.ring_step_cycles()
        steps = max(min(int(CHASE_SHARE * memory / step), MOST_STEPS), 1)
        hides = steps * step / memory
        in_level_two = self._in_level_two(walk_bytes)
        alone = calm_level(np.stack([volleys.blocked(0, steps, walk_bytes) for _ in range(8)]))

        def excess(count: int) -> NDArray[np.float64]:
            misses = calm_level(volleys.loads(count)) if count else 0.0
            return volleys.blocked(count, steps, walk_bytes) - max(misses, alone)

        # misses of a second wave take twice as long as one: a chase no longer than that would never show behind them
        waves = 2 if hides > HIDES_TWO else 1
        most = MOST if loads.step is None else min(waves * loads.step.high, MOST)
        unit = memory * (hides - 1 if waves == 2 else min(hides, 1.0))
        stairs = self._climber.climb("hits behind misses", excess, 0, most, unit)
        if loads.step is not None:
            for number in AT_JUMP_ROUNDS * (max(loads.step.last - 1, 0), loads.step.last):
                stairs.samples.setdefault(number, []).append(excess(number))
        return Blocked(stairs, in_level_two)

    def _in_level_two(self, walk_bytes: float) -> bool:
        """Whether the line of the hit really comes from level 2, by its latency; asked until that is clear, for near
        levels may differ by less than a clock step."""
        ordered = sorted(self._climber.cycles.values())
        inner, own, outer = ordered[(at := ordered.index(self._climber.cycles["l2"])) - 1 : at + 2]
        low, high = (inner * own) ** 0.5, (own * outer) ** 0.5
        found: list[float] = []
        while len(found) < NEAR_MOST:
            found += [self._near_cycles(walk_bytes) for _ in range(NEAR_BATCHES)]
            near = over_replicates(found)
            if near.high < low or low < near.low < near.high < high or near.low > high:
                break
        return bool(low < near.value < high)

    def _near_cycles(self, walk_bytes: float) -> float:
        """What a load of the line takes that ought to be in level 2, against one that is in level 1."""

        def of(size: float) -> float:
            return self._climber.mean(lambda: self._climber.volleys.blocked(0, 1, size), NEAR_RUNS)

        return of(walk_bytes) - of(0.0) + self._climber.cycles["l1"]

    def chases(self, loads: Staircase) -> float | None:
        """Misses that the throughput of parallel chases keeps in flight, by Little's law: the most of twice as many
        chases as loads can be in flight, and as many."""
        if loads.step is None:
            return None
        self._climber.context.progress("parallel chases")
        one = self._wave_cycles(1)
        return max(count * one / self._wave_cycles(count) for count in (loads.step.last, 2 * loads.step.last))

    def _wave_cycles(self, count: int) -> float:
        long, short = (
            calm_level(np.concatenate([self._climber.volleys.waves(count, waves) for _ in range(8)]))
            for waves in (WAVES, 1)
        )
        return (long - short) / (WAVES - 1)
