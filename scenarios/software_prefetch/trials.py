"""What the questions share: one line, prefetched or not, and how often it is then far away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

from setebench.experiments.bursts.bursts import FLUSHED, Bursts, Others, Times
from setebench.experiments.bursts.controls import Controls
from setebench.experiments.calibrate import step_ticks
from setebench.probe import Probe
from setebench.results import Finding, Value
from setebench.scenario import Context
from setebench.stats import decide
from setebench.stats.estimate import CONFIDENCE
from setebench.stats.ticks.location import mean_ticks

from .params import Params

QUIETER = "run again at a quieter time"
NOTHING_DONE = (False, "drops", "nonblocking")
"""Answers that a hint which does nothing at all would give as well."""


@dataclass(frozen=True)
class Answer:
    """A value, or None and why there is none. `remark` says what else a reader should know."""

    value: Value = None
    reason: str = ""
    remark: str = ""

    def finding(self, parameter: str, unit: str, method: str, evidence: str = "") -> Finding:
        """As a finding, measured or unresolved."""
        if self.value is None:
            return decide.unresolved(parameter, unit, self.reason, method)
        said = f"{method}; {self.remark}" if self.remark else method
        return decide.chosen(parameter, self.value, unit, said, evidence)


class Share(NamedTuple):
    """The fraction of lines that were far away, with its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, hits: int, lines: int) -> Share:
        """So many of the lines, by Wilson's interval."""
        found = binomtest(hits, lines).proportion_ci(CONFIDENCE, "wilson")
        return cls(hits / lines, found.low, found.high)

    @classmethod
    def beyond(cls, limit: float, times: Times) -> Share:
        """Of times, those above a limit."""
        return cls.of(int((times > limit).sum()), times.size)


def done(prefetched: Share, flushed: Share, params: Params) -> Answer:
    """Decide whether prefetches brought lines, by the shares in memory with and without one (`flushed`)."""
    if flushed.low < params.quiet:
        return Answer(reason=f"{1 - flushed.value:.0%} of the lines came without any prefetch; {QUIETER}")
    if prefetched.low > params.clear:
        return Answer(False)
    if prefetched.high < params.small:
        return Answer(True)
    return Answer(reason=f"{prefetched.value:.0%} of prefetched lines stayed in memory; {QUIETER}")


class Trials:
    """Programs on one machine, `bursts` of them for every question, and the `hint` that questions are put with: one
    that fills level 1, else any that does something."""

    def __init__(self, context: Context, bursts: Bursts) -> None:
        self.context, self.bursts, self.controls = context, bursts, Controls(context, bursts)
        self.params = Params().quicker() if context.fast else Params()
        self.unit, self.hint = self.controls.unit, ""
        self.fills: dict[str, list[str]] = {}

    @property
    def warmed(self) -> bool:
        """Whether the hint does something only right after a hit in the page of its line."""
        return self.hint in self.controls.warmed

    def mean(self, times: Times) -> float:
        """The mean without what stalls hit, cycles: trimming would bias what a coarse clock reads."""
        return mean_ticks(times, step_ticks(self.context) * self.bursts.cycles_per_tick)  # type: ignore[arg-type]

    def by_state(self, probe: Probe, states: Sequence[str], others: Others | None = None) -> dict[str, Times]:
        """Cycles by state, shape (samples, intervals), of a program on new lines each time."""
        self.bursts.refresh()
        parts = [self.bursts.by_state(probe, states, (), others) for _ in range(self.params.bursts)]
        return {state: np.concatenate([part[state] for part in parts]) for state in states}

    def done(self, probe: Probe, prefetched: str, others: Others | None = None) -> Answer:
        """Whether the line is there in the state `prefetched`, by how often it is when flushed."""
        times = self.by_state(probe, (FLUSHED, prefetched), others)
        far = [Share.beyond(self.limit, times[state]) for state in (prefetched, FLUSHED)]
        return self.unless_ignored(done(far[0], far[1], self.params))

    @property
    def limit(self) -> float:
        """Cycles of a single load that are too many for a cache."""
        return self.controls.loaded.mean + self.controls.params.way * self.unit

    def unless_ignored(self, found: Answer) -> Answer:
        """`found`, unless it says that prefetches did nothing while the hint does nothing in the plainest place either:
        some CPUs ignore a hint for seconds on end."""
        if found.value in NOTHING_DONE and self.controls.landed(self.hint) not in ("l1", "l2", "l3"):
            return Answer(reason=f"prefetches {self.hint} do nothing at all at this time; {QUIETER}")
        return found
