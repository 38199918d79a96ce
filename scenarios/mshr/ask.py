"""What is measured on one thread: bursts of loads and prefetches, and hits behind bursts of loads."""

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
"""Of what a jump is searched for; prefetches are named by their hints."""

NO_JUMP = Jump(last=None, times={})


@dataclass(frozen=True)
class Prefetching:
    """A hint and the level that it fills. `set_out`: the time of setting out and of loads long after, by number of
    prefetches; a prefetch that finds no entry waits, or its line is missing later. `there`: until all lines are."""

    burst: Burst
    level: str
    set_out: Jump = NO_JUMP
    there: Jump = NO_JUMP


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one thread measured to decide how many misses are in flight: `loads`, the time of bursts by their number of
    loads that miss; `hits`, how long a hit in level 2 waits behind such bursts, in memory latencies; `fills`, the level
    that each hint fills; `queue_before`, whether a hit in level 1 waits behind as many, too; `disturbed`, the share
    of bursts beside which an SMT co-runner was seen."""

    unit: float
    loads: Jump
    hits: Jump | None = None
    queue_before: bool = False
    prefetching: tuple[Prefetching, ...] = ()
    fills: dict[str, str] = field(default_factory=dict)
    disturbed: float = 0.0

    @property
    def counts(self) -> list[int]:
        """The entries that each kind of request finds."""
        found = [entries(self.loads, LOADS), *(entries(each.set_out, each.burst.hint) for each in self.prefetching)]
        return [*found, entries(self.hits, HITS)] if self.hits is not None and not self.alike else found

    @property
    def alike(self) -> bool:
        """Whether rounds of hits, too, say the number behind which loads have to wait. Behind just as many a hit waits
        but for the first of many to leave, which is soon, so other rounds say one more."""
        if self.hits is None or self.hits.last is None or not self.loads.certain:
            return False
        return self.loads.last in range(self.hits.low + 1, self.hits.last + 2)

    def plain(self) -> dict[str, Any]:
        """Curves in cycles and the rest, for the result file and the plot."""
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
    """The entries that a jump says, 0 where none does: a hit waits behind as many, the others behind one more."""
    return 0 if jump.last is None or what == LINES else jump.last + (what == HITS)


def taken(count: int, others: Iterable[int], params: Params) -> bool:
    """Whether another number is larger by so little that a co-runner may have held an entry when this was counted."""
    return any(0 < count < other and other - count <= params.near * other for other in others)


class Questions:
    """Asks one thread of a machine. What was searched for is kept, for epochs to come."""

    def __init__(self, context: Context, bursts: Bursts, controls: Controls, params: Params) -> None:
        self.context, self.bursts, self.controls, self.params = context, bursts, controls, params
        self.unit = controls.unit
        few, many = params.chain_steps
        short, long = (self.calm(bursts.line(ALONE, steps)[LOADED]) for steps in params.chain_steps)
        self._steps = max(int(params.chain * self.unit * (many - few) / max(long - short, 1.0)), 1)
        self._chain = min(self._level(bursts.line(ALONE, self._steps)[LOADED]) for _ in range(params.tries))
        self._searches: dict[str, Search] = {}

    def all(self, levels: tuple[str, ...]) -> Evidence:
        """Everything, in one epoch and in later ones, each time after all others."""
        loads = self._search(LOADS, lambda n: self._set_out(Burst(count=n))[0], (1, self.params.most))
        if self.controls.second:
            most = min(2 * loads.last, self.params.most) if loads.last else self.params.most
            self._search(HITS, self._hit_behind, (0, most), near=(loads.last or 1) - 1)
        hints = {hint: self.controls.landed(hint) for hint in self.context.machine.facts.prefetch_hints}
        first, second = (next((hint for hint in hints if hints[hint] == each), "") for each in ("l1", "l2"))
        second = (second or first) if "l2" in levels else ""  # an L1 hint's lines come through level 2 as well
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
        loads = self._searches[LOADS].found
        return Evidence(
            unit=self.unit,
            loads=loads,
            hits=self._found(HITS) if self.controls.second else None,
            queue_before=self._queue_before(loads),
            prefetching=tuple(
                Prefetching(burst, hints[hint], self._found(hint), self._found(LINES) if hint == second else NO_JUMP)
                for hint, burst in bursts.items()
            ),
            fills=hints,
            disturbed=self.bursts.alone.co_runner_fraction,
        )

    def calm(self, times: Times) -> float:
        """Mean between two low quantiles: what disturbs a repetition makes it longer."""
        ordered = np.sort(times)
        low, high = (int(part * len(ordered)) for part in self.params.calm)
        return float(ordered[low : max(high, low + 1)].mean())

    def _level(self, times: Times) -> float:
        return float(np.quantile(times, self.params.level))

    def waiting(self, burst: Burst) -> float:
        """What part of a flushed line's delay a hit in level 2 has behind a burst; 1 where a hit in level 1 waits, too,
        as in order behind a load that waits for an entry, and 0 where nothing shows."""
        times = self.bursts.line(burst, self._steps)
        loaded, evicted, flushed = (self._level(times[state]) for state in STATES[:3])
        if loaded - self._chain > self.params.half * self.unit:
            return 1.0
        return (evicted - loaded) / (flushed - loaded) if flushed - loaded > self.params.shows * self.unit else 0.0

    def _hit_behind(self, count: int) -> float:
        return self.waiting(Burst(count=count))

    def _queue_before(self, loads: Jump) -> bool:
        """Whether a hit in level 1 waits behind as many loads as are in flight: then what is full lies before that."""
        if loads.last is None or loads.last < 2:
            return False
        burst = Burst(count=loads.last)
        least = min(self._level(self.bursts.line(burst, self._steps)[LOADED]) for _ in range(self.params.tries))
        return least - self._chain > self.params.half * self.unit

    def _set_out(self, burst: Burst) -> tuple[float, float]:
        """Of a burst: the time until it has set out and that of loads long after, in units."""
        times = self.bursts.until_set_out(burst) / self.unit
        return self.calm(times[:, 0]), self.calm(times[:, 1])

    def _there(self, burst: Burst) -> float:
        return self.calm(self.bursts.until_there(burst)) / self.unit

    def _prefetches(self, hint: str) -> Burst:
        """Search for the jump of a hint. Some machines want a hit in the page right before each prefetch."""
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
