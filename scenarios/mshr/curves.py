"""Latency-over-count curves: how long so many requests take, and the largest number that waits for nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from setebench.calibration import MEMORY
from setebench.experiments.bursts.bursts import Times
from setebench.experiments.bursts.of_threads import ThreadBursts
from setebench.experiments.calibrate import step_ticks
from setebench.scenario import Context
from setebench.stats.estimate import CONFIDENCE
from setebench.stats.jump import Curve, SearchParams, search
from setebench.stats.threshold import Posterior, over_epochs
from setebench.stats.ticks.location import mean_ticks

from .params import Params

Ask = Callable[[int], Times]
"""Times of some repetitions for a number of requests, on new lines; shape (repetitions,)."""


@dataclass
class Asked:
    """What was asked of one kind of request: `curve` of the first epoch, and the posterior of the largest number that
    waits for nothing, of each epoch."""

    ask: Ask
    curve: Curve
    epochs: list[Posterior] = field(default_factory=list)

    @property
    def posterior(self) -> Posterior:
        """Of all epochs together; of the first alone, as nothing says of one that entries were taken in it."""
        return over_epochs(self.epochs) if len(self.epochs) > 1 else self.epochs[0]

    @property
    def jumps(self) -> bool:
        """Whether time rather jumps than not."""
        return self.posterior.none < 1 / 2

    @property
    def last(self) -> int:
        """The most probable number."""
        return self.posterior.value

    @property
    def certain(self) -> bool:
        """Whether that number is known."""
        return self.jumps and self.posterior.certainty >= CONFIDENCE

    @property
    def ends(self) -> tuple[int, int]:
        """Numbers that it lies between."""
        low, high = self.posterior.interval(CONFIDENCE)
        return min(low, self.last), max(high, self.last)

    @property
    def most(self) -> int:
        """The largest number measured."""
        return max(self.curve.samples)

    def levels(self) -> dict[int, float]:
        """The time of each number, ascending."""
        return dict(self.curve.levels())

    def plain(self) -> dict[str, Any]:
        """For the result file and the plot."""
        step = [self.last, *self.ends] if self.jumps else None
        epochs = [[each.value, round(each.certainty, 4), round(each.none, 4)] for each in self.epochs]
        return plain(self.levels(), step) | {"epochs": epochs}


def plain(times: Mapping[int, float], step: list[int] | None = None) -> dict[str, Any]:
    """A curve for the result file and the plot; `step` is the number behind which it jumps, with its interval."""
    return {"numbers": list(times), "cycles": [round(each, 1) for each in times.values()], "step": step}


def nearest(own: float, cycles: Mapping[str, float]) -> str:
    """The level whose latency, of those in `cycles`, differs least from `own`, by ratio."""
    least = min(cycles.values())
    return min(cycles, key=lambda level: abs(float(np.log(max(own, least) / cycles[level]))))


class Curves:
    """Searches thresholds one after the other, and keeps them to ask again in later epochs. `cycles` are the latencies
    of the levels."""

    def __init__(self, context: Context, bursts: ThreadBursts, cycles: dict[str, float]) -> None:
        self.context, self.bursts, self.cycles = context, bursts, cycles
        self.params = Params().quicker() if context.fast else Params()
        self.rng = context.rng(4)
        self._search = SearchParams(most=self.params.questions)
        self._asked: dict[str, Asked] = {}

    @property
    def memory(self) -> float:
        """What a miss takes, cycles."""
        return self.cycles[MEMORY]

    def search(self, what: str, ask: Ask, between: tuple[int, int]) -> Asked:
        """The threshold of `ask` among a first and a last number of requests, each of which takes a miss."""
        return self.go_on(what, Asked(ask, Curve(*between, self.memory, self.rng)))

    def go_on(self, what: str, asked: Asked) -> Asked:
        """The first epoch of what may have some samples already."""
        self.context.progress(what)
        self.bursts.refresh()
        asked.epochs.append(search(asked.ask, asked.curve, self._search).posterior)
        self._asked[what] = asked
        return asked

    def in_later_epochs(self) -> None:
        """Every jump once more, when all have been asked for, and again: each time after all others."""
        for epoch in range(1, self.params.epochs + self.params.more_epochs):
            for what, asked in self._asked.items():
                if asked.jumps and not (asked.certain and len(asked.epochs) >= self.params.epochs):
                    self.context.progress(f"{what}, epoch {epoch + 1}")
                    self.bursts.refresh()
                    asked.epochs.append(search(asked.ask, asked.curve.again(), self._search).posterior)

    def mean(self, ask: Callable[[], Times], runs: int) -> float:
        """Mean cycles of so many runs: small differences need a mean that the clock's step doesn't bias."""
        return self.mean_of(np.concatenate([ask() for _ in range(runs)]))

    def mean_of(self, times: Times) -> float:
        """Mean of undisturbed samples, cycles."""
        return mean_ticks(times, self.bursts.cycles_per_tick * step_ticks(self.context))  # type: ignore[arg-type]


def goes_on(asked: Asked, params: Params) -> bool:
    """Whether time goes on to rise right behind the jump. Behind a full queue it doesn't, as entries get free as fast
    as they were taken; where requests wait for page walks, say, it does."""
    behind = [time for number, time in asked.levels().items() if asked.last < number <= params.further * asked.last]
    return bool(behind) and behind[-1] - min(behind) > params.half * asked.curve.unit


def at_once(times: Mapping[int, float], most: float) -> int:
    """The largest number that took no longer than `most`, 0 if none did: then no smaller one had to wait either, and
    where one took longer that was something else."""
    return max((number for number, time in times.items() if time <= most), default=0)


def in_flight(times: Mapping[int, float], unit: float, params: Params) -> int:
    """How many independent misses surely were in flight at once, though time may never jump: by Little's law at least
    as many as what all took one after the other is longer than what they took together. `times` by number, from one on;
    the shortest counts as that of one, for if that was slow all others would look more at once than they were."""
    numbers, own = np.array(list(times)), np.array(list(times.values()))
    return int((params.certainly * numbers * unit / (own - own.min() + unit)).max())


def surely(times: Mapping[int, float], unit: float, most: int, params: Params) -> int:
    """How many misses surely were in flight at once: those that took less than half a miss longer than one, as what
    waits for an entry takes a whole one; or what throughput proves, up to `most`."""
    together = at_once(times, min(times.values()) + params.half * unit)
    return max(together, min(in_flight(times, unit, params), most))
