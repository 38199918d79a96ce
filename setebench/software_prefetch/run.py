"""What the questions about software prefetches share: the machine's references, and the hint they are asked with."""

from __future__ import annotations

from typing import Any

import numpy as np

from setebench.infer.mixture import Shares
from setebench.infer.software_prefetch import Answer
from setebench.infer.ticks import mean_ticks
from setebench.machine import Region, Ticks
from setebench.measure.calibrate import step_ticks
from setebench.measure.serving import References, levels_of, measure_references, reference
from setebench.results import Finding, Outcome
from setebench.scenario import Context

SAMPLES, FAST_SAMPLES = 2000, 800
"""Loads per condition: enough that 6 cycles show on a clock that moves in steps of 70."""

NEAR_LEVELS = ("l1", "l2")


class Run:
    """What the steps of one answer share."""

    def __init__(self, context: Context, region: Region) -> None:
        self.context, self.region = context, region
        self.samples = FAST_SAMPLES if context.fast else SAMPLES
        self.references: References = measure_references(context, region, self.samples)
        self.step = step_ticks(context)
        means = {name: mean_ticks(ticks, self.step) for name, ticks in self.references.ticks.items()}
        self.memory_ticks = means["memory"] - means["l1"]
        self.rng = context.rng(46)
        self.hint = ""
        """The hint that other questions are asked with: one that fills the first level, else any that does anything."""
        self.fills: dict[str, Answer] = {}
        self.ignored: set[str] = set()
        """Hints that did nothing at all in some turns."""
        self.looks: list[dict[str, Ticks]] = []
        self._near: list[dict[str, Ticks]] = []
        self.landed: dict[str, dict[str, list[float]]] = {}
        self.across_page: bool | None = None
        self.prefetch_blocks = False

    def refresh_references(self, samples: int) -> None:
        """Take those of the nearest levels once more. They are a few cycles apart, which a core that runs 2 % faster
        than when they were taken makes up by itself; so they come beside what they explain, as often as that."""
        walks = levels_of(self.context, self.region)
        near = [name for name in NEAR_LEVELS if name in self.references.levels]
        self._near.append({name: reference(self.context, self.region, name, walks[name], samples) for name in near})
        now = {name: np.concatenate([each[name] for each in self._near]) for name in near}
        self.references = References(self.references.ticks | now)

    def shares(self, *sets: Any) -> Shares:
        """What part of the loads in each set each level served, with intervals."""
        return self.references.shares(sets, self.rng)


def unavailable(parameter: str, unit: str, reason: str) -> Finding:
    """What this machine can't be asked."""
    return Finding(parameter=parameter, unit=unit, outcome=Outcome.UNAVAILABLE, reason=reason)
