"""What a run has measured once and for all of a machine: its clock, its pace, its levels. Frozen; each step that finds
more puts a new record in its place (`Context.calibration`), so whoever keeps an old one keeps it as it was."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Walk:
    """The traversal of evictor lines behind which lines are left in a level: over so many bytes, so many times.

    More than once where the inner level may replace at random: lines stay in it that one turn missed, while the outer
    level holds the traversed lines from turn to turn and loses none of its own."""

    bytes: float = 0.0
    turns: int = 1


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The levels of the hierarchy by name, nearest first, as the size sweep found them.

    `walks` brings lines to each; `cycles` is about what a load from each takes. `sweep` is the evidence of it.
    Something may answer in `hidden_cycles` that is a level of its own: those further out can't be numbered."""

    walks: dict[str, Walk]
    cycles: dict[str, float]
    hidden_cycles: float = math.inf
    sweep: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """`step_ticks`: granularity of the clock. `look_scale`: how many times as long as usual the control of the core's
    other thread must be on this clock, 0 where it does not say. `issue_pace`: the fastest pace of independent
    instructions beside a chain that was seen on each CPU. None, or empty, until measured."""

    step_ticks: float | None = None
    look_scale: int | None = None
    issue_pace: Mapping[int | None, float] = field(default_factory=dict)
    levels: Levels | None = None

    @property
    def level_cycles(self) -> dict[str, float]:
        """About how many cycles a load from each level takes, nearest first; empty before the levels are found."""
        return self.levels.cycles if self.levels else {}
