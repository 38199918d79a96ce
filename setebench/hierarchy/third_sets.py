"""Ways of a third cache and whether it includes the second, from lines of its sets: any index, any replacement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from setebench.machine import Region
from setebench.measure.absent import Absent
from setebench.measure.crowded import LEAST_PAGES, Crowd, crowd
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.overflow import (
    Crossed,
    Looks,
    critical,
    crossed,
    fewest_pages,
    looks_at,
    nearer_share,
    unbiased,
)
from setebench.measure.rings import Lines
from setebench.measure.thinning import Latencies
from setebench.measure.together import Together
from setebench.measure.trials import Trials
from setebench.scenario import Context

BALLAST_RATIO, LONG_RATIO, CHEAP_LINES, LEAST_RATIO = 3.5, 2.0, 40_000, 1.25
"""Lines that push others out of the second cache, in what it holds: so many that random pages fill every set of few
ways; fewer if they are more than `CHEAP_LINES`; at least."""

RANDOM_CAPACITIES = 6.0
"""Capacities of the second cache that are walked where it may replace at random: it then keeps one line in a hundred
or less."""

TRIED_RATIO, MOST_TRIED = 0.8, 0.5
"""Ballast that shows whether a cache that takes lines along was told right; and lines of which the second cache loses
few by itself, all in what it holds."""

QUARTER, STILL_SHARE = 0.25, 0.85
"""Behind lines that fill a quarter of the second cache so many of a set's lines must still be there. If it kept as many
as it can in few of its own sets, about a quarter would be gone."""

SETS, TRIES = 2, 8
"""Sets that must agree, and searches for one."""

MANY_PAGES = 160
"""Crowded pages among which a second set is looked for where fewer held but one: pages of four sets of 40 ways."""

SURE_TIMES, SURE_SHARE, NONE_SHARE, MOSTLY_SHARE = 12, 0.8, 0.2, 0.65
"""Trials with each set; those that overflow at least where all do, or at most where none does; and lines that are
missing for one too many loaded last, on average, in those that are where all are loaded: all but that one's."""

NEAREST_SHARE = 0.5
"""A line comes from the third cache if it takes longer than half the way from the second's latency to the third's."""


@dataclass(frozen=True)
class ThirdSets:
    """Ways of the third cache, or None and why; whether it takes a line along that it evicts from the second, or why
    that isn't told; whether it takes lines in only when the second gives them up, so that it holds others than that
    one, or None."""

    ways: int | None
    reason: str = ""
    inclusive: tuple[bool | None, str] = (None, "no lines of one set of the third cache were found")
    victims_only: bool | None = None


def third_sets(
    context: Context, region: Region, cycles: list[float], second_lines: float, third_lines: float, by_age: bool
) -> ThirdSets:
    """`cycles` are latencies, nearest first; the lines are what the second cache holds, and all up to the third.
    `by_age`: whether the second is known to replace the oldest lines, or about that."""
    context.progress("lines that share a set of the third cache")
    absent = Absent(context, region, Latencies(cycles[0], cycles[2], cycles[3]))
    if not absent.clear:
        return ThirdSets(None, "the clock's step is too long beside memory's latency to tell single lines apart")
    nearest = cycles[1] + NEAREST_SHARE * (cycles[2] - cycles[1])
    sets: list[Crossed] = []
    for least_pages in (LEAST_PAGES, MANY_PAGES):
        found = crowd(context, region, absent, third_lines, LEAST_RATIO * second_lines, least_pages)
        if found is None and sets:
            break
        if found is None:
            reason = "no walk overfills a few of its sets: a neighbour, or it is too small or large a cache"
            return ThirdSets(None, reason)
        trials = _trials(context, region, absent, found, second_lines, by_age)
        # pages of the shorter walk are among those of the longer one, so a set that they overfill is overfull in it too
        sets = _Search(trials, found, second_lines, nearest, sets).sets(context.progress)
        context.evidence["third_sets"] = [{"ways": own.ways, "missing": own.usual} for own in sets]
        if len(sets) != 1 or len(found.crowded) >= MANY_PAGES:
            break
    if len(sets) < SETS:
        return ThirdSets(None, "no lines that clearly share a set: run again at a quieter time")
    if len({own.ways for own in sets}) > 1:
        return ThirdSets(None, "sets of different numbers of ways, it seems; run again at a quieter time")
    included = _inclusive(trials, sets, int(QUARTER * second_lines), nearest)
    return ThirdSets(sets[0].ways, inclusive=included, victims_only=_victims_only(trials, sets))


def _trials(
    context: Context, region: Region, absent: Absent, found: Crowd, second_lines: float, by_age: bool
) -> Trials:
    per_page = TLB_PAGE_BYTES // region.line_size
    wanted = max(LONG_RATIO * second_lines, min(BALLAST_RATIO * second_lines, CHEAP_LINES))
    lines: Lines = found.clean[: int(wanted / per_page) + 1][:, None] + np.arange(per_page) * region.line_size
    if lines.size < TRIED_RATIO * second_lines:
        lines = lines[:0]
    turns = 1 if by_age or not len(lines) else int(np.ceil(RANDOM_CAPACITIES * second_lines / lines.size))
    trials = Trials(context, region, absent, lines, turns)
    trials.use(found.crowded)
    return trials


class _Search:
    """Searches for pages that overfill sets of the third cache, `second_lines` being what the second one
    holds; some of the `sets` may be known already."""

    def __init__(
        self,
        trials: Trials,
        found: Crowd,
        second_lines: float,
        nearest_cycles: float,
        sets: Sequence[Crossed] = (),
    ) -> None:
        self._trials, self._found = trials, found
        self._second_lines, self._nearest_cycles = second_lines, nearest_cycles
        self._sets = sets
        known = np.concatenate([lines for own in sets for lines in own.lines]) if sets else found.crowded[:0]
        self._left = np.flatnonzero(~np.isin(found.crowded, known - known % TLB_PAGE_BYTES))
        self._takes_along = found.missed.size < MOST_TRIED * second_lines
        self._surely_along = False
        self._together = Together(trials, found)

    def sets(self, progress: Callable[[str], None]) -> list[Crossed]:
        """Pages of `SETS` sets, one more than each holds lines; those known before come first."""
        sets = list(self._sets)
        for _ in range(TRIES):
            if len(sets) < SETS and len(self._left) and not self._trials.spent:
                one = self._one()
                sets += [] if one is None else [one]
                progress(f"lines that share a set of the third cache: {len(sets)} of {SETS} sets")
        return sets

    def _one(self) -> Crossed | None:
        """At first without ballast, which is enough for a cache that takes what it evicts out of the one before. What
        is found is tried with it all the same: a second cache indexed alike may have been what was overfull."""
        if self._takes_along:
            left = self._left
            with self._trials.without_ballast():
                one = self._critical()
            if (
                one is not None
                and self._trials.ballast_lines
                and critical(Looks(self._trials, one.per_page), one.lines)
            ):
                self._surely_along = True
                return one
            if self._surely_along:  # a stall or a neighbour's line this time, and ballast would only take longer
                return None
            self._takes_along, self._left = False, left  # those pages told of the second cache, not of this one
            self._together = Together(self._trials, self._found)
        if self._trials.ballast_lines < LEAST_RATIO * self._second_lines:
            self._left = self._left[:0]
            return None
        one = self._critical()
        if one is None or not unbiased(Looks(self._trials, one.per_page), one, self._nearest_cycles):
            return None
        return one

    def _critical(self) -> Crossed | None:
        for group in self._together.groups(self._left):
            own = self._found.crowded[group]
            looks = looks_at(self._trials, list(own[:, None] + self._together.offsets))
            pages = fewest_pages(looks, own, self._together.offsets)
            if pages is None:
                continue
            if len(pages) < 2:  # a single line is missing: such a cache takes in no line that is used once
                self._left = self._left[:0]
                return None
            self._left = self._left[~np.isin(self._found.crowded[self._left], pages)]
            return crossed(looks, pages, self._together.offsets)
        return None


def _inclusive(trials: Trials, sets: list[Crossed], few_lines: int, nearest_cycles: float) -> tuple[bool | None, str]:
    """Whether a line is gone for good when its set overflows while the second cache, left alone, holds all of them."""
    with trials.without_ballast():
        share = np.mean([trials.missing(np.concatenate(own.lines)) > 0 for own in sets for _ in range(SURE_TIMES)])
    if share <= NONE_SHARE:
        return False, ""
    if share < SURE_SHARE:
        return None, f"a line is lost in {share:.0%} of the times that a set of the third cache is overfull"
    still = min(nearer_share(trials, own, few_lines, nearest_cycles) for own in sets)
    if still < STILL_SHARE:
        return None, f"the second cache may lose lines of the third one's sets by itself: it keeps {still:.0%} of them"
    return True, ""


def _victims_only(trials: Trials, sets: list[Crossed]) -> bool | None:
    """Whether the third cache takes in what the second gives up and nothing else; None where that isn't clear.

    A set is filled to its last way, the second cache emptied of its lines, then one line more is loaded, which the
    second cache keeps. A third one that takes in lines as they are loaded has to give one up for it."""
    if not trials.ballast_lines:
        return None
    # prefetchers that bring more of a page into the third cache itself take room in the sets that are looked at
    alone = [own for own in sets if max(len(lines) for lines in own.lines) <= trials.quarter_lines]
    asked = alone or sets
    shares = [_lost_for_one(trials, own, n % len(own.lines)) for own in asked for n in range(SURE_TIMES)]
    if np.mean(shares) <= NONE_SHARE:
        return True
    return False if alone and np.mean(shares) >= MOSTLY_SHARE else None


def _lost_for_one(trials: Trials, own: Crossed, number: int) -> float:
    """Lines missing behind those of this page, loaded last, in those that are missing where all sets overflow."""
    return Looks(trials, own.per_page).once(own.without(number), last=own.lines[number]) / own.usual
