"""Measurements of miss queues on one thread: bursts of loads, bursts of prefetches, and cache hits behind loads."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from setebench.experiments.bursts.bursts import ALONE, LOADED, STATES, Burst, Bursts, Times
from setebench.experiments.bursts.controls import Controls
from setebench.scenario import Context
from setebench.stats.jump import Jump, Search

from .params import Params

LOADS, HITS, LINES = "loads", "hits behind loads", "lines of prefetches"
"""Names of searches for a jump of time over the number of requests; prefetches' searches have the hint's name."""

NO_JUMP = Jump(last=None, times={})
"""Result that stands for a search that was not made: no jump."""


@dataclass(frozen=True)
class Prefetching:
    """Results of bursts of one prefetch hint, which fills `level`. A jump is a number of requests: with one more, a
    time rises abruptly. `set_out` is the jump of a sum of two times: until all are issued, and of a later load of the
    last line, slow if its prefetch was dropped. `there` is the jump of the time until the last line has arrived."""

    burst: Burst
    level: str
    set_out: Jump = NO_JUMP
    there: Jump = NO_JUMP


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one thread measured. A jump is a number of requests: with one more, their time rises abruptly. Times are in
    `unit`, the cycles that a miss takes longer than a hit. `loads` is the jump of bursts of loads; `hits` is the jump
    of an L2 hit behind such a burst (None: not measured). `queue_before` is how many loads make an L1 hit wait as well
    (0: none did). `prefetching` has the results of each hint, and `fills` maps each hint to the level that it fills.
    `disturbed` is the share of bursts, 0 to 1, that ran beside an SMT co-runner."""

    unit: float
    loads: Jump
    hits: Jump | None = None
    queue_before: int = 0
    prefetching: tuple[Prefetching, ...] = ()
    fills: dict[str, str] = field(default_factory=dict)
    disturbed: float = 0.0

    @property
    def counts(self) -> list[int]:
        """Numbers of entries that the searches found, in this order: by loads, by prefetches of each hint, and by hits
        behind loads, unless these were not measured or confirm the first number."""
        found = [entries(self.loads, LOADS), *(entries(each.set_out, each.burst.hint) for each in self.prefetching)]
        return [*found, entries(self.hits, HITS)] if self.hits is not None and not self.alike else found

    @property
    def alike(self) -> bool:
        """Whether hits behind loads confirm the number of entries that loads show, by the same number or one more: a
        hit behind loads that fill the queue only waits until the first of them has left, which is soon."""
        if self.hits is None or self.hits.last is None or self.loads.last is None:
            return False
        return self.loads.certain and self.hits.last <= self.loads.last <= self.hits.last + 1

    def plain(self) -> dict[str, Any]:
        """Return this evidence as plain values for the result file and the plot, with curves in cycles."""
        named = {"loads": self.loads, "blocked": self.hits}
        for own in self.prefetching:
            named |= {f"prefetch.{own.burst.hint}.phase": own.set_out, f"prefetch.{own.burst.hint}.total": own.there}
        return {
            "curves": {name: self._curve(jump) for name, jump in named.items() if jump is not None and jump.times},
            "unit_cycles": round(self.unit, 1),
            "prefetch_fills": self.fills,
            "disturbed": round(self.disturbed, 3),
        }

    def _curve(self, jump: Jump) -> dict[str, Any]:
        step = None if jump.last is None else [jump.last, jump.low, jump.high]
        cycles = [round(time * self.unit, 1) for time in jump.times.values()]
        return {"numbers": list(jump.times), "cycles": cycles, "step": step}


def entries(jump: Jump, what: str) -> int:
    """Return how many entries a jump in the search `what` (a hint, `LOADS`, `HITS` or `LINES`) shows: the requests
    before it, plus 1 for `HITS`, as the hit takes an entry, too; 0 without a jump, or for `LINES` (never compared)."""
    return 0 if jump.last is None or what == LINES else jump.last + (what == HITS)


def taken(count: int, others: Iterable[int], params: Params) -> bool:
    """Whether another count is only a little larger than `count`: a co-runner may have held an entry then."""
    return any(0 < count < other and other - count <= params.near * other for other in others)


class Questions:
    """Measures miss queues on one thread. It keeps its searches for the number of requests after which time jumps, so
    that rounds in later epochs add their votes to those of earlier rounds."""

    def __init__(self, context: Context, bursts: Bursts, controls: Controls, params: Params) -> None:
        self.context, self.bursts, self.controls, self.params = context, bursts, controls, params
        self.unit = controls.unit
        few, many = params.chain_steps
        short, long = (self.calm(bursts.line(ALONE, steps)[LOADED]) for steps in params.chain_steps)
        self._steps = max(int(params.chain * self.unit * (many - few) / max(long - short, 1.0)), 1)
        self._chain = self._near(0)
        self._searches: dict[str, Search] = {}

    def all(self, levels: tuple[str, ...]) -> Evidence:
        """Search for each number of requests after which a time jumps, repeat all searches some seconds later, and
        return the evidence. `levels` are the cache levels whose queues are asked for: "l1", "l2" or both."""
        loads = self._search(LOADS, lambda n: self._set_out(Burst(count=n))[0], (1, self.params.most))
        if self.controls.second:
            most = min(2 * loads.last, self.params.most) if loads.last else self.params.most
            self._search(HITS, self._hit_behind, (0, most), near=(loads.last or 1) - 1)
        hints = {hint: self.controls.landed(hint) for hint in self.context.machine.facts.prefetch_hints}
        first, second = (next((hint for hint in hints if hints[hint] == each), "") for each in ("l1", "l2"))
        second = (second or first) if "l2" in levels else ""  # lines of a hint that fills L1 pass L2 as well
        bursts = {hint: self._prefetches(hint) for hint in dict.fromkeys((first, second)) if hint}
        if second:
            self._search(LINES, lambda n: self._there(replace(bursts[second], count=n)), (1, self.params.most))
        for epoch in range(1, self.params.epochs + self.params.more_epochs):
            counts = {what: entries(search.found, what) for what, search in self._searches.items()}
            if epoch < self.params.epochs or any(taken(each, counts.values(), self.params) for each in counts.values()):
                time.sleep(self.params.apart_seconds)
            for what, search in self._searches.items():
                if epoch < self.params.epochs or taken(counts[what], counts.values(), self.params):
                    self.context.progress(f"{what}, epoch {epoch + 1}")
                    self.bursts.refresh()
                    search.again()
        loads, hits = self._searches[LOADS].found, self._found(HITS) if self.controls.second else None
        return Evidence(
            unit=self.unit,
            loads=loads,
            hits=hits,
            queue_before=self._queue_before(loads.last or 0, entries(hits, HITS) if hits else 0),
            prefetching=tuple(
                Prefetching(burst, hints[hint], self._found(hint), self._found(LINES) if hint == second else NO_JUMP)
                for hint, burst in bursts.items()
            ),
            fills=hints,
            disturbed=self.bursts.alone.co_runner_fraction,
        )

    def calm(self, times: Times) -> float:
        """Return one time for all repetitions: the mean between two low quantiles, as disturbances only add time."""
        ordered = np.sort(times)
        low, high = (int(part * len(ordered)) for part in self.params.calm)
        return float(ordered[low : max(high, low + 1)].mean())

    def _level(self, times: Times) -> float:
        return float(np.quantile(times, self.params.level))

    def waiting(self, burst: Burst) -> float:
        """Return a burst's delay of an L2 hit, as a part of a miss: (hit in L2 - hit in L1) / (load of a flushed line -
        hit in L1), all timed behind the burst; 0 if the flushed line takes no longer. If the hit in L1 is delayed as
        well, 1: the core itself waits, as in-order cores do behind a load that waits for an entry."""
        times = self.bursts.line(burst, self._steps)
        loaded, evicted, flushed = (self._level(times[state]) for state in STATES[:3])
        if loaded - self._chain > self.params.half * self.unit:
            return 1.0
        return (evicted - loaded) / (flushed - loaded) if flushed - loaded > self.params.shows * self.unit else 0.0

    def _hit_behind(self, count: int) -> float:
        return self.waiting(Burst(count=count))

    def _queue_before(self, loads: int, hits: int) -> int:
        """Return behind how many loads a hit in L1 waits, 0 if it doesn't: then a queue before L1 is full. Tried are as
        many as are in flight (`loads`), or as many as make a hit in L2 wait (`hits`) if that is clearly more, and half
        of them: where memory is busy, bursts alone prolong the chain."""
        count = hits if hits > loads + self.params.next_to else loads
        return count if count > 1 and self._near(count) - self._near(count // 2) > self.params.half * self.unit else 0

    def _near(self, count: int) -> float:
        """Return the least cycles that a hit in L1 took behind so many loads."""
        lines = [self.bursts.line(Burst(count=count), self._steps) for _ in range(self.params.tries)]
        return min(self._level(times[LOADED]) for times in lines)

    def _set_out(self, burst: Burst) -> tuple[float, float]:
        """Return two times of a burst in units: until all requests are issued, and of a later load of the last line."""
        times = self.bursts.until_set_out(burst) / self.unit
        return self.calm(times[:, 0]), self.calm(times[:, 1])

    def _there(self, burst: Burst) -> float:
        return self.calm(self.bursts.until_there(burst)) / self.unit

    def _prefetches(self, hint: str) -> Burst:
        """Search for the jump of a hint's prefetches; return the burst. Some machines need a hit in the page first."""
        burst = Burst(count=1, hint=hint, warmed=hint in self.controls.warmed)
        self._search(hint, lambda n: sum(self._set_out(replace(burst, count=n))), (0, self.params.most))
        return burst

    def _search(self, what: str, ask: Any, between: tuple[int, int], near: int | None = None) -> Jump:
        self.context.progress(what)
        self.bursts.refresh()
        self._searches[what] = Search(ask, between, self.bursts.rng, near)
        return self._searches[what].found

    def _found(self, what: str) -> Jump:
        return self._searches[what].found if what in self._searches else NO_JUMP
