"""How much the caches behind the first hold, where no lines are known to share a set: from lines that passed through.

See `infer.residence` for why the mean number of lines that pass until one is gone is the capacity. What a walk brings
in vain, or somebody else, only ever takes room away, so the result is a lower bound at least. It is told as the size
where nothing of that kind shows: the same in another order, and when the walk takes its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from setebench.hierarchy.recency import Passed, Stream
from setebench.infer.residence import BOOTSTRAPS, Curve, Fit, Held, Known, agreed, curve, fit, held, improved
from setebench.machine import Region
from setebench.measure.alone import MOST_BESIDE, Alone
from setebench.measure.calibrate import step_ticks
from setebench.measure.rings import cycles_per_tick
from setebench.scenario import Context

LARGEST_RATIO, LEAST_REACH = 256, 1 << 17
"""The second cache is looked for up to so many times the first one's lines, or so many lines if that is more."""

MOST_LINES = 1_400_000
"""Lines that pass for the third cache at most: twice what 32 MiB hold, and a bit."""

LEAST_ABOVE_FIRST = 1.1
"""A level holds so many times the lines of the one before at least, or what was taken for it is something else."""

LEAST_RATIO = 4.0
"""So many times the second cache's lines must pass at least for the third to be seen."""

REACH = 8.0
"""Lines that pass, in capacities: random replacement then keeps 1 in 3000."""

PILOT_STOPS, STOPS, MORE_STOPS = 64, 200, 800
"""Stops to see where a step is about, and to tell it; more where the walks don't agree, which may be chance."""

WAIT_CYCLES = 100_000
"""A pause at every stop, some times as long as the walk to the next one takes."""

WALKS = ((False, (0, WAIT_CYCLES)), (True, (0,)))
"""In order, without a pause and with, then scattered. A prefetcher that has learned whole pages spoils the first ones:
it brings the line that is to be timed."""

WALKS_IN_ALL = sum(len(waits) for _, waits in WALKS)

APART_STEPS = 3.0
"""Two levels are told apart load by load if so many clock steps lie between them."""

STALL_RATIO = 1.3
"""Loads count at most so many times what memory takes: an interrupt is no level."""

HEIGHT_RATIO = 1.4
"""A step whose height is known from elsewhere must have that height within this ratio."""

RESAMPLED_STEPS = (0.03, 0.01)
"""Parts by which capacities are moved when loads are drawn anew: the best ones are near."""

MOST_MISFIT = 30.0
"""Squared errors per degree of freedom at most. On a clock of single ticks errors are so small that any shape that
isn't quite a gamma distribution shows; a step that isn't there misfits by far more."""


FAR_SHARE, HIDDEN_SHARE, SLOWER_RATIO = 0.25, 0.02, 1.5
"""Of the lines that pass, those in the furthest three quarters are far; a level that nobody found yet answers so many
of them at least, so much more slowly than the second one."""


AROUND_FIRST = (0.75, 1.4)
"""Distances, in lines of the first cache, that are left out: it gets lines in order, set by set, so if it replaces the
oldest it ends all at once, as no gamma distribution does. Where it ends is known."""

INSIDE_SHARE = 0.6
"""Of the lines of a level, those that passed no longer ago than that mostly are still there, whatever it replaces."""


def hidden_level(passed: Passed, reach: float, second: float, memory: float) -> float | None:
    """Cycles of a level between the second one and memory that answers a few of the lines that passed long ago."""
    return _slower(passed.cycles[passed.distance > FAR_SHARE * reach], second, memory)


def level_within(passed: Passed, lines: float, second: float, memory: float) -> float | None:
    """The same of the lines that should all still be in a second level of so many `lines`."""
    inside = (passed.distance > FAR_SHARE * lines) & (passed.distance < INSIDE_SHARE * lines)
    return _slower(passed.cycles[inside], second, memory)


def _slower(far: NDArray[np.float64], second: float, memory: float) -> float | None:
    near = far[far < (second + memory) / 2]
    if len(near) < HIDDEN_SHARE * len(far) or not len(near):
        return None
    cycles = float(near.mean())
    return cycles if SLOWER_RATIO * second < cycles < memory / SLOWER_RATIO else None


class Capacities:
    """Capacities behind a first cache of `first_lines` lines, with latencies in cycles by level, nearest first.

    `hidden` says whether a level turned up between the second one and memory that is not among these."""

    def __init__(self, context: Context, region: Region, first_lines: int, latencies: Sequence[float]) -> None:
        self._context, self._region, self._first = context, region, first_lines
        self._cycles = list(latencies)
        self.hidden = False
        self._alone: Alone | None = None
        self._step = step_ticks(context) * cycles_per_tick(context)
        self._rng = context.rng(92)

    @property
    def _heights(self) -> tuple[float, ...]:
        return tuple(float(each) for each in np.diff(self._cycles))

    # -- the second cache --------------------------------------------------------------------------------------------

    def second(self) -> Held | None:
        """None where no step of the second cache is seen."""
        self._alone = Alone(self._context)
        told = self._second_told()
        return told if told is None else replace(told, tenant=self._alone.tenant_share > MOST_BESIDE)

    def _second_told(self) -> Held | None:
        told = self._second(STOPS)
        if told is not None and self.hidden:
            return replace(told, steady=False, blunt=False)
        if told is None or told.steady:
            return told
        again = self._second(MORE_STOPS)
        return again if again is not None and (again.steady or again.blunt) else told

    def _second(self, stops: int) -> Held | None:
        """What all walks say of the second cache, with so many stops each."""
        reach = min(max(LARGEST_RATIO * self._first, LEAST_REACH), self._region.lines // 2)
        guess: Fit | None = None
        found: list[Held | None] = []
        for scattered, waits in WALKS:
            walk = Stream(self._context, self._region, 2 * reach, 93, scattered, alone=self._alone)
            if guess is None:
                walk.advance(reach)
                guess = self._guessed(walk.passed(self._first / 8, reach, PILOT_STOPS), reach)
                if guess is None:
                    continue
            far = min(REACH * guess.steps[1].lines, reach)
            found += [self._told_nearby(walk, far, guess, stops, wait_cycles) for wait_cycles in waits]
        return agreed([each for each in found if each is not None], WALKS_IN_ALL)

    def _guessed(self, passed: Passed, reach: float) -> Fit | None:
        """About where the second step is; None where none is seen. Where memory seems to follow the second level, a
        third one that others keep nearly full may still have answered a few loads: its step is what was seen then."""
        guess = fit(self._nearby(passed), self._known_nearby(), self._starts(reach))
        plausible = self._plausible(guess, reach / 2)
        cycles = None
        if len(self._cycles) == 3:
            _, second, memory = self._cycles
            cycles = (
                level_within(passed, guess.steps[1].lines, second, memory)
                if plausible
                else hidden_level(passed, reach, second, memory)
            )
        if cycles is None:
            return guess if plausible else None
        self._cycles.insert(2, cycles)
        self.hidden = True
        guess = fit(self._nearby(passed), self._known_nearby(), self._starts(reach))
        return guess if self._plausible(guess, reach / 2) else None

    def _told_nearby(self, walk: Stream, far: float, begin: Fit, stops: int, wait_cycles: int) -> Held | None:
        walk.advance(int(far))
        passed = walk.passed(max(begin.steps[1].lines / 16, 16.0), far, stops, wait_cycles)
        found = improved(self._nearby(passed), self._known_nearby(), begin)
        if not self._plausible(found, far / 2):
            return None
        curves = (self._nearby(passed, self._rng) for _ in range(BOOTSTRAPS))
        again = [improved(each, self._known_nearby(), found, RESAMPLED_STEPS).steps[1].lines for each in curves]
        return held(found.steps[1].lines, found.steps[1].shape, again)

    @property
    def _beyond(self) -> float:
        """Cycles from which on a load surely came from memory, not from the third cache; infinite if none does."""
        if len(self._cycles) < 4 or self._cycles[3] - self._cycles[2] < APART_STEPS * self._step:
            return float("inf")
        return (self._cycles[2] + self._cycles[3]) / 2

    def _known_nearby(self) -> Known:
        steps = 2 if np.isfinite(self._beyond) else len(self._heights)
        return Known(self._first, self._heights[:steps])

    def _starts(self, reach: float) -> list[list[float]]:
        octaves = np.arange(0.5, np.log2(reach / self._first), 0.5)
        starts = [[float(self._first)], (self._first * 2.0**octaves).tolist()]
        if len(self._known_nearby().heights) > 2:
            starts.append((self._first * 2.0 ** np.arange(3.0, 13.0)).tolist())
        return starts

    def _nearby(self, passed: Passed, rng: np.random.Generator | None = None) -> Curve:
        cycles = np.minimum(passed.cycles, STALL_RATIO * self._cycles[-1])
        counts = (passed.distance < AROUND_FIRST[0] * self._first) | (passed.distance > AROUND_FIRST[1] * self._first)
        return curve(passed.distance[counts], cycles[counts], self._beyond, rng)

    def _plausible(self, found: Fit, most_lines: float) -> bool:
        """Whether the second step has the height that it should, and lies well inside of what was looked at."""
        own, height = found.steps[1], self._heights[1]
        right = height / HEIGHT_RATIO < own.height < height * HEIGHT_RATIO
        return right and found.misfit < MOST_MISFIT and LEAST_ABOVE_FIRST * self._first < own.lines < most_lines

    # -- the third cache ---------------------------------------------------------------------------------------------

    def third(self, second_lines: float) -> Held | None:
        """None where no step of the third cache is seen, or it lies further out than can be walked."""
        if len(self._cycles) < 4 or second_lines < LEAST_ABOVE_FIRST * self._first:
            return None
        told = self._third(second_lines, STOPS)
        if told is None or told.steady:
            return told
        again = self._third(second_lines, MORE_STOPS)
        return again if again is not None and (again.steady or again.blunt) else told

    def _third(self, second_lines: float, stops: int) -> Held | None:
        """What all walks say of the third cache, with so many stops each."""
        reach = min(MOST_LINES, int(0.7 * self._region.lines))
        if reach < LEAST_RATIO * second_lines:
            return None
        found: list[Held | None] = []
        for scattered, waits in WALKS:
            walk = Stream(self._context, self._region, min(1.4 * reach, self._region.lines), 95, scattered)
            walk.advance(reach)
            found += [self._told_far(walk, second_lines, reach, stops, wait_cycles) for wait_cycles in waits]
        return agreed([each for each in found if each is not None], WALKS_IN_ALL)

    def _told_far(self, walk: Stream, second_lines: float, reach: int, stops: int, wait_cycles: int) -> Held | None:
        passed = walk.passed(max(second_lines / 4, 16.0), reach, stops, wait_cycles)
        known = Known(self._first, self._heights)
        octaves = np.arange(0.5, np.log2(reach / second_lines), 0.5)
        starts = [[float(self._first)], [second_lines], (second_lines * 2.0**octaves).tolist()]
        found = fit(self._all(passed), known, starts)
        step, height = found.steps[2], self._heights[2]
        right = height / HEIGHT_RATIO < step.height < height * HEIGHT_RATIO and found.misfit < MOST_MISFIT
        if not right or step.lines > reach / 2:
            return None
        curves = (self._all(passed, self._rng) for _ in range(BOOTSTRAPS))
        again = [improved(each, known, found, RESAMPLED_STEPS).steps[2].lines for each in curves]
        return held(step.lines, step.shape, again)

    def _all(self, passed: Passed, rng: np.random.Generator | None = None) -> Curve:
        return curve(passed.distance, np.minimum(passed.cycles, STALL_RATIO * self._cycles[-1]), rng=rng)
