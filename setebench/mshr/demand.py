"""Misses of loads and stores: how many are in flight, and whether level 1 or something behind it limits them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.infer.in_flight import Blocked, Nearer, kept_in_flight
from setebench.infer.steps import LEAST_RISE, Staircase, calm_level, change_point, window
from setebench.infer.ticks import mean_ticks
from setebench.measure.placed import Placed
from setebench.mshr.climber import MOST, Climber

WAVES = 3

CHASE_SHARE, MOST_STEPS, HIDES_TWO = 1.6, 400, 1.25
"""The chase behind a hit takes so many times as long as a miss; its most steps (where they don't fit into the core's
window, the last ones begin when the first misses have left it); and what it takes at least to show behind two waves of
misses, which is what more misses than level 2 has entries take."""

WALK_RATIO, MOST_WALKS = 1.4, 5
"""Walks differ by so much, and so many are tried, until the line of the hit stays in level 2: the walk that shows that
level's latency goes round several times, and a level 2 of few ways may lose the line to it."""

AT_JUMP_ROUNDS = 12
"""Rounds in which a hit behind as many misses as can be in flight is timed, and behind one less."""

SHOWS_SHARE = 0.5
"""Share of the rise looked for by which a hit that waits for a miss must at least show."""

NEARER_RUNS, NEARER_ROUNDS = 6, 4
"""Runs whose means tell what a wave of parallel chases takes in a level between (of two waves, so few that their pages
stay in a first TLB); and rounds over the numbers at which loads from memory jump."""


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
        walk_bytes, in_level_two = self._walk_into_level_two(walk_bytes)
        alone = calm_level(np.stack([volleys.blocked(0, steps, walk_bytes) for _ in range(8)]))

        longest: dict[int, float] = {}

        def excess(count: int) -> NDArray[np.float64]:
            misses = calm_level(volleys.loads(count)) if count else 0.0
            longest[count] = max(longest.get(count, 0.0), misses)
            return volleys.blocked(count, steps, walk_bytes) - max(misses, alone)

        # misses of a second wave take twice as long as one: a chase no longer than that would never show behind them
        waves = 2 if hides > HIDES_TWO else 1
        most = MOST if loads.step is None else min(waves * loads.step.high, MOST)
        unit = memory * (hides - 1 if waves == 2 else min(hides, 1.0))
        stairs = self._climber.climb("hits behind misses", excess, 0, most, unit)
        if loads.step is not None:
            for number in AT_JUMP_ROUNDS * (max(loads.step.last - 1, 0), loads.step.last):
                stairs.samples.setdefault(number, []).append(excess(number))
        # a hit that waits for a miss delays the end by one, less what all the misses take longer than the chase
        hidden = [number for number in longest if memory - max(longest[number] - alone, 0.0) < SHOWS_SHARE * unit]
        return Blocked(stairs, in_level_two, min(hidden, default=MOST + 1) - 1, walk_bytes)

    def _walk_into_level_two(self, walk_bytes: float) -> tuple[float, bool]:
        """A walk about as long as `walk_bytes` that leaves the line of the hit in level 2, and whether there is one."""
        further, near = 0, lambda size: self._climber.volleys.blocked(0, 1, size)
        for _ in range(MOST_WALKS):
            last, further = further, self._climber.levels_off(near, walk_bytes)
            if further == 0:
                return walk_bytes, True
            if last == -further:
                break
            walk_bytes *= WALK_RATIO**-further
        return walk_bytes, False

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

    # -- lines nearer than memory --------------------------------------------------------------------------------------

    def nearer(self, placed: Placed, level: str, loads: Staircase) -> Nearer | None:
        """Loads that `level`, between level 1 and memory, serves: how many parallel chases keep in flight there, and
        whether time jumps at the number at which it does from memory. None where that number isn't known, the lines
        are not found in the level, or what else goes on there hides them."""
        if loads.step is None or loads.step.last < 2:
            return None
        self._climber.context.progress(f"loads from {level}")
        placed.refresh()
        count = 2 * loads.step.last
        # what prefetchers learned from the walk they spend on the first volley, and lines beside fill the queues
        shapes = [(count, 1), *((own, waves) for own in (1, count) for waves in (1, 2))]
        times = np.concatenate([placed.chases(shapes) for _ in range(NEARER_RUNS)])[:, 1:]
        one = mean_ticks(times[:, 1], placed.step_cycles) - mean_ticks(times[:, 0], placed.step_cycles)
        if not self._answers_from(level, one):
            return None
        in_flight = kept_in_flight(times, count, placed.step_cycles, self._climber.rng)
        if in_flight is None:
            return None
        behind = 1 - self._climber.cycles["l1"] / one
        return Nearer(in_flight, behind, self._nearer_stairs(placed, one, loads.step.last))

    def _answers_from(self, level: str, cycles: float) -> bool:
        """Whether this latency is nearest to that of `level`."""
        own = self._climber.cycles
        return min(own, key=lambda name: abs(np.log(max(cycles, 1.0) / own[name]))) == level

    def _nearer_stairs(self, placed: Placed, unit: float, last: int) -> Staircase | None:
        """Time of loads around the number `last`; None on a clock whose step is higher than the jump may be."""
        if placed.step_cycles > LEAST_RISE * unit:
            return None
        found = Staircase(unit)
        numbers = list(window(last, 1))
        for _ in range(NEARER_ROUNDS):
            order = self._climber.rng.permutation(numbers)
            times = placed.chases([(int(number), 1) for number in order])
            for number, own in zip(order, times.T, strict=True):
                found.samples.setdefault(int(number), []).append(own)
        samples = {number: np.stack(own) for number, own in found.samples.items()}
        found.step = change_point(samples, unit, self._climber.rng)
        return found
