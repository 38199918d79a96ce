"""Common parts of the questions: one line that is prefetched or not, and how often it is still in memory afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

from setebench.experiments.bursts.bursts import FLUSHED, Bursts, Others, Times
from setebench.experiments.bursts.controls import NONE, UNSTEADY, Controls
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
"""Answers that a hint which does nothing at all would also give."""


@dataclass(frozen=True)
class Answer:
    """An answer's `value`, or None with the `reason`; `remark` is a further note for the reader."""

    value: Value = None
    reason: str = ""
    remark: str = ""

    def finding(self, parameter: str, unit: str, method: str, evidence: str = "") -> Finding:
        """Return the answer as a finding: measured, or unresolved where there is no value."""
        if self.value is None:
            return decide.unresolved(parameter, unit, self.reason, method)
        said = f"{method}; {self.remark}" if self.remark else method
        return decide.chosen(parameter, self.value, unit, said, evidence)


class Share(NamedTuple):
    """The fraction of lines that were in memory, not in any cache: `value`, and its 95 % interval `low` to `high`."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, hits: int, lines: int) -> Share:
        """Return the share that `hits` are of `lines`, with Wilson's 95 % interval."""
        found = binomtest(hits, lines).proportion_ci(CONFIDENCE, "wilson")
        return cls(hits / lines, found.low, found.high)

    @classmethod
    def beyond(cls, limit: float, times: Times) -> Share:
        """Return the share of times (cycles) above a limit, with its interval."""
        return cls.of(int((times > limit).sum()), times.size)


def done(prefetched: Share, flushed: Share, params: Params) -> Answer:
    """Decide whether prefetches work, by the shares of lines in memory when `prefetched` and when only `flushed`."""
    if flushed.low < params.quiet:
        return Answer(reason=f"{1 - flushed.value:.0%} of the lines came without any prefetch; {QUIETER}")
    if prefetched.low > params.clear:
        return Answer(False)
    if prefetched.high < params.small:
        return Answer(True)
    return Answer(reason=f"{prefetched.value:.0%} of prefetched lines stayed in memory; {QUIETER}")


class Trials:
    """Runs the probes of all questions on one machine, on `params.bursts` sets of lines each. `hint` is the prefetch
    hint of all questions: one that fills L1, else any that works."""

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
        """Return the mean of `times` (cycles) without the far longer ones, in which an interrupt or the like came.
        Nothing else is trimmed, which would bias the mean of a coarse clock."""
        return mean_ticks(times, step_ticks(self.context) * self.bursts.cycles_per_tick)  # type: ignore[arg-type]

    def by_state(self, probe: Probe, states: Sequence[str], others: Others | None = None) -> dict[str, Times]:
        """Run a probe on new lines each time, with its line brought to one of the `states` before; return cycles by
        state, shape (samples, intervals). `others` returns addresses of the probe's further bases."""
        self.bursts.refresh()
        parts = [self.bursts.by_state(probe, states, (), others) for _ in range(self.params.bursts)]
        return {state: np.concatenate([part[state] for part in parts]) for state in states}

    def done(self, probe: Probe, prefetched: str, others: Others | None = None) -> Answer:
        """Decide whether the prefetch in state `prefetched` brings the probe's line, against the same line flushed.
        `others` chooses the addresses of what else the probe loads."""
        times = self.by_state(probe, (FLUSHED, prefetched), others)
        far = [Share.beyond(self.limit, times[state]) for state in (prefetched, FLUSHED)]
        return self.unless_ignored(done(far[0], far[1], self.params))

    @property
    def limit(self) -> float:
        """Cycles above which a single load counts as one from memory."""
        return self.controls.loaded.mean + self.controls.params.way * self.unit

    def unless_ignored(self, found: Answer) -> Answer:
        """Return `found`; or no value, if it says that prefetches did nothing while the hint does nothing in the
        simplest case either, as some CPUs ignore a hint for seconds."""
        if found.value in NOTHING_DONE and self.controls.landed(self.hint) in (NONE, UNSTEADY):
            return Answer(reason=f"prefetches {self.hint} do nothing at all at this time; {QUIETER}")
        return found
