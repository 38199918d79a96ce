"""One line with its controls: how many evictors push it out of level 1, what a miss takes, where prefetches land."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from setebench.experiments.bursts.bursts import (
    ALONE,
    EVICTED,
    FLUSHED,
    LOADED,
    PREFETCHED,
    STATES,
    Burst,
    Bursts,
    Times,
)
from setebench.scenario import Context

NONE, UNSTEADY = "none", "unsteady"
"""Where a hint lands that leaves its lines where they were, or does so now and then."""


@dataclass(frozen=True, kw_only=True)
class ControlParams:
    """Shares are of repetitions."""

    evictors: tuple[int, ...] = (16, 32, 64, 128, 256, 512, 1024, 2048)  # tried: a first level holds less than these
    bursts: int = 8  # of each number of evictors, or hint, before anything is decided
    most_bursts: int = 32  # where times of near levels don't differ clearly by then
    errors: float = 4.0  # standard errors between the times of two near levels
    least_cycles: float = 2.0  # between two levels: less is drift
    far: float = 0.3  # of lines pushed out of level 1, those that may be found far away
    grows: float = 1.1  # as much further with twice the evictors, and the fewer left some lines in level 1
    way: float = 0.75  # from a loaded line to a flushed one: what takes longer is far
    silent: float = 0.8  # of lines far away: the prefetches of that burst did nothing
    steady: float = 0.5  # of bursts, those in which a hint must have done something
    inside: float = 0.5  # of the way from level 1 to level 2: nearer lines are in level 1
    outside: float = 0.6  # over the way from level 1 to level 2: such lines lie further out


@dataclass(frozen=True)
class Near:
    """Of samples: the share that is nearer to flushed lines, the mean of the others (cycles) and its standard error."""

    far: float
    mean: float
    error: float

    @classmethod
    def of(cls, times: Times, limit: float) -> Near:
        """The share of loads that took `limit` or longer; of the others the mean and its standard error."""
        near = times[times < limit]
        if not len(near):
            return cls(1.0, limit, 0.0)
        return cls(1 - len(near) / len(times), float(near.mean()), float(near.std() / np.sqrt(len(near))))


class Controls:
    """What one line takes in each state on this machine, and what a flushed one takes longer (`unit`), in cycles.
    `second` says whether evictors leave it in the next level."""

    def __init__(self, context: Context, bursts: Bursts) -> None:
        self.params, self._context, self._bursts = ControlParams(), context, bursts
        self.second, self.unit = False, 1.0
        self.warmed: set[str] = set()
        context.progress("a line just loaded, pushed out of level 1, flushed")
        self._choose()

    def _choose(self) -> None:
        """The fewest evictors that clearly push the line out of level 1, or twice as many where those leave less in it:
        more would push it out of small second levels as well."""
        found: dict[int, float] = {}
        for evictors in self.params.evictors:
            self._bursts.evictors = evictors
            loaded, evicted = self._near_states()
            if evicted.far > self.params.far:
                break
            way = evicted.mean - loaded.mean
            if way > max(self.params.least_cycles, self.params.errors * np.hypot(loaded.error, evicted.error)):
                found[evictors] = way
                if len(found) == 2:
                    break
        self.second = bool(found)
        first = min(found, default=self.params.evictors[0])
        more = found.get(2 * first, 0.0) > self.params.grows * found.get(first, 0.0) > 0
        self._bursts.evictors = 2 * first if more else first
        self.loaded, self.evicted = self._near_states() if found else (loaded, evicted)
        self._context.evidence["controls"] = {
            "evictors": self._bursts.evictors,
            "cycles": {LOADED: self.loaded.mean, EVICTED: self.evicted.mean, FLUSHED: self.loaded.mean + self.unit},
        }

    def _near_states(self, burst: Burst = ALONE, hint: str = "") -> list[Near]:
        """All states but the flushed one, sampled until they differ clearly or enough has been sampled. Without a hint
        it says anew what a miss takes longer than a hit."""
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
            if hint:  # prefetches that did nothing for a while say nothing of where others land
                own = zip(samples[PREFETCHED], self.turns, strict=True)
                done = [each for each, far in own if far < self.params.silent]
                joined[PREFETCHED] = np.concatenate(done or samples[PREFETCHED])
            found = [Near.of(joined[state], limit) for state in states if state != FLUSHED]
            gap = abs(found[1].mean - found[0].mean)
            if (
                gap > self.params.errors * np.hypot(found[0].error, found[1].error)
                or len(samples[LOADED]) >= self.params.most_bursts
            ):
                return found

    def landed(self, hint: str) -> str:
        """Where a line is that was in memory and then prefetched: l1, l2, l3 (further out than level 2), `NONE`, or
        `UNSTEADY`. A hint that does nothing by itself is tried right behind a hit in the page (`warmed`)."""
        self._context.progress(f"where prefetches {hint} land")
        for warmed in [True] if hint in self.warmed else [False, True]:
            found = self._landed(hint, replace(ALONE, warmed=warmed))
            if found not in (NONE, UNSTEADY):
                self.warmed |= {hint} if warmed else set()
                break
        return found

    def _landed(self, hint: str, burst: Burst) -> str:
        loaded, evicted, prefetched = self._near_states(burst, hint)
        cycles = self._context.evidence.setdefault("prefetched", dict(self._context.evidence["controls"]["cycles"]))
        cycles[hint] = round(prefetched.mean, 1)
        silent = float(np.mean(self.turns >= self.params.silent))
        if silent == 1:
            return NONE
        # where flushed lines come without any prefetch, nothing can be said of one
        if self.stayed < 1 - self.params.far or silent > 1 - self.params.steady or prefetched.far > self.params.far:
            return UNSTEADY
        way = max(evicted.mean - loaded.mean, self.params.least_cycles) if self.second else self.unit
        part = (prefetched.mean - loaded.mean) / way
        error = self.params.errors / 2 * np.hypot(loaded.error, prefetched.error) / way
        if part < self.params.inside:
            return "l1"
        return "l2" if part - error < 1 + self.params.outside else "l3"
