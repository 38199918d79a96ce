"""Controls of bursts: load times of a line in each state, evictors of level 1, and the level that prefetches fill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from setebench.experiments.bursts.bursts import (
    ALONE,
    EVICTED,
    FLUSHED,
    LOADED,
    PAGE_BYTES,
    PREFETCHED,
    STATES,
    Burst,
    Bursts,
    Times,
)
from setebench.scenario import Context

NONE, UNSTEADY, UNCLEAR = "none", "unsteady", "unclear"
"""Results for a prefetch hint that leaves lines in memory always, sometimes, or brings them to one of two levels."""


@dataclass(frozen=True, kw_only=True)
class ControlParams:
    """Tunables of the controls. A load is far if its time shows memory, near if it shows level 1 or 2."""

    pages: tuple[int, ...] = (8, 12, 16, 24, 32, 48)  # evictors tried, one a page
    lines: tuple[int, ...] = (256, 384, 576, 864, 1296, 1944, 2916)  # the same of a dense block
    bursts: int = 3  # runs of each number of evictors, or of each hint, before a decision
    most_bursts: int = 48  # runs at most, while times are neither precise nor clearly different
    errors: float = 4.0  # standard errors by which these times must differ
    least_cycles: float = 2.0  # least difference of two levels' times in cycles; less may be drift
    far: float = 0.3  # largest share of lines evicted from level 1 whose loads are far
    grows: float = 1.25  # least ratio of delays by which more evictors show that fewer left some lines in level 1
    way: float = 0.75  # fraction of the difference between flushed and loaded lines from which a load is far
    silent: float = 0.8  # share of far loads from which the prefetches of a run count as dropped
    steady: float = 0.5  # least fraction of runs in which a hint must have had an effect
    precise: float = 2.0  # cycles; largest error of a delay, two standard errors
    nearest: float = 3.5  # cycles that a line in level 1 takes at most longer than one just loaded
    inside: float = 0.5  # fraction of the difference between levels 2 and 1 below which a line is in level 1
    outside: float = 1.6  # the same, above which a line is beyond level 2


@dataclass(frozen=True)
class Near:
    """Summary of loads of a line. `far` is the share of loads that are about as slow as those of flushed lines; `mean`
    and standard `error` are of all other loads, in cycles."""

    far: float
    mean: float
    error: float

    @classmethod
    def of(cls, times: Times, limit: float) -> Near:
        """Summarise the `times` of loads (cycles, shape (n,)); loads of at least `limit` cycles are far."""
        near = times[times < limit]
        if not len(near):
            return cls(1.0, limit, 0.0)
        return cls(1 - len(near) / len(times), float(near.mean()), float(near.std() / np.sqrt(len(near))))


class Controls:
    """Times of a load of the line in each state on this machine, in cycles (`loaded`, `evicted`), and the `unit`, the
    extra time of a flushed line over a loaded one. `second` says whether evicted lines are found in level 2."""

    def __init__(self, context: Context, bursts: Bursts) -> None:
        self.params, self._context, self._bursts = ControlParams(), context, bursts
        self.second, self.unit, self._way = False, 1.0, np.inf
        self.warmed: set[str] = set()
        context.progress("a line just loaded, pushed out of level 1, flushed")
        self._choose()

    def _choose(self) -> None:
        """Choose the evictors: the fewest behind which loads take level 2's time. Behind more and more evictors loads
        get slower up to that time, and stay there until level 2 is full, too. Lines at one offset in their pages evict
        few others where level 1 is indexed by address; where it is hashed, a dense block fills all sets alike."""
        forms = ((self.params.pages, PAGE_BYTES, 1), (self.params.lines, self._bursts.size, 2))
        self.second = any(self._plateau(*form) for form in forms)
        self._bursts.evictors = self._bursts.evictors if self.second else (1, PAGE_BYTES)
        self.loaded, self.evicted = self._near_states()
        self._context.evidence["controls"] = {
            "evictors": self._bursts.evictors,
            "cycles": {LOADED: self.loaded.mean, EVICTED: self.evicted.mean, FLUSHED: self.loaded.mean + self.unit},
        }

    def _plateau(self, counts: Sequence[int], apart: int, times: int) -> bool:
        """Set the evictors to the first of `counts`, lines `apart` bytes apart, behind which loads are clearly delayed,
        but about as much as behind the number before, so many `times` in a row; return whether there is one."""
        before, steady = 0.0, 0
        for count in counts:
            self._bursts.evictors = (count, apart)
            loaded, evicted = self._near_states()
            way = evicted.mean - loaded.mean
            if evicted.far > self.params.far:
                return False
            steady = steady + 1 if before and way < self.params.grows * before else 0
            if steady == times:
                return True
            least = max(self.params.least_cycles, self.params.errors * float(np.hypot(loaded.error, evicted.error)))
            before = way if way > least else 0.0
        return False

    def _near_states(self, burst: Burst = ALONE, hint: str = "") -> list[Near]:
        """Time the line in all states until delays are precise (without a hint: or clear) or `most_bursts` is reached,
        and return the summaries of all states but the flushed one. Without a hint, `unit` is measured again."""
        states = STATES if hint else STATES[:3]
        samples: dict[str, list[Times]] = {state: [] for state in states}
        while True:
            for _ in range(self.params.bursts):
                for state, times in self._bursts.line(burst, 0, hint, states).items():
                    samples[state].append(times)
            joined = {state: np.concatenate(times) for state, times in samples.items()}
            near, away = float(np.median(joined[LOADED])), float(np.median(joined[FLUSHED]))
            self.unit = self.unit if hint else max(away - near, 1.0)
            limit = near + self.params.way * self.unit
            self.stayed = float(np.mean(joined[FLUSHED] > limit))
            self.turns = np.array([np.mean(times > limit) for times in samples[states[-1]]])
            if hint:  # runs whose prefetches were dropped don't show which level others fill
                own = zip(samples[PREFETCHED], self.turns, strict=True)
                done = [each for each, far in own if far < self.params.silent]
                joined[PREFETCHED] = np.concatenate(done or samples[PREFETCHED])
            found = [Near.of(joined[state], limit) for state in states if state != FLUSHED]
            error = float(np.hypot(found[0].error, found[-1].error))
            clear = not hint and found[1].mean - found[0].mean > 2 * self.params.errors * error
            if clear or 2 * error < self.params.precise or len(samples[LOADED]) >= self.params.most_bursts:
                return found

    def landed(self, hint: str) -> str:
        """Return the level that this hint's prefetches from memory fill: l1, l2, l3 (or beyond), `NONE`, `UNSTEADY` or
        `UNCLEAR`. Prefetches without effect are tried again right after a hit in their page."""
        self._context.progress(f"where prefetches {hint} land")
        for warmed in [True] if hint in self.warmed else [False, True]:
            found = self._landed(hint, replace(ALONE, warmed=warmed))
            if found != NONE:
                self.warmed |= {hint} if warmed and found != UNSTEADY else set()
                break
        return found

    def _landed(self, hint: str, burst: Burst) -> str:
        """Return the result of `landed` for one form of burst, warmed or not."""
        loaded, evicted, prefetched = self._near_states(burst, hint)
        cycles = self._context.evidence.setdefault("prefetched", dict(self._context.evidence["controls"]["cycles"]))
        cycles[hint] = round(prefetched.mean, 1)
        silent = float(np.mean(self.turns >= self.params.silent))
        if silent == 1:
            return NONE
        # If many flushed lines arrive without a prefetch, its effect can't be seen.
        if self.stayed < 1 - self.params.far or silent > 1 - self.params.steady or prefetched.far > self.params.far:
            return UNSTEADY
        over, error = prefetched.mean - loaded.mean, 2 * float(np.hypot(loaded.error, prefetched.error))
        if self.second:
            self._way = min(self._way, max(evicted.mean - loaded.mean, self.params.least_cycles))
        inside, outside = (part * self._way for part in (self.params.inside, self.params.outside))
        if over + error < min(inside, self.params.nearest):
            return "l1"
        if self.second and self.params.nearest < over - error and over + error < inside:
            self._way = over  # so a level comes before that of evicted lines
            return "l2"
        if not self.second or over - error < inside or over - error < outside < over + error:
            return UNCLEAR
        return "l2" if over < outside else "l3"
