"""What timing single loads of placed lines gave: ticks, and which line and turn each is of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.infer.lines import fastest_lines
from setebench.infer.ticks import ALIKE_SHARE, dominant, undisturbed
from setebench.stats.served import quantised_variance

ONE_GROUP_SHARE, WIDER_RATIO = 0.9, 1.25
"""Additions are one group if so many of them are; groups are reported by so much wider gaps until they are."""


@dataclass(frozen=True)
class Timed:
    """Ticks of single loads, the number of each one's line and in which of the line's turns it was, shape (n,) each;
    ticks of the additions timed in the same places; and over how many pages lines are spread (line n lies in page n
    modulo `pages`)."""

    loads: NDArray[np.int64]
    additions: NDArray[np.int64]
    line: NDArray[np.int64]
    turn: NDArray[np.int64]
    pages: int
    additions_cycles: int = 8

    def alike_ticks(self, step_ticks: float) -> float:
        """By how much loads of one level differ: a share of what loads take longer than the additions. The bracket is
        the same in both, and a share of it would hide the way from one level to the next. But no less than what leaves
        the additions in one group: they are all alike, so what parts them is the bracket's own doing."""
        alike = ALIKE_SHARE * max(float(np.median(self.loads)) - float(np.median(self.additions)), 0.0)
        while dominant(self.additions, step_ticks, alike).mean() < ONE_GROUP_SHARE:
            alike = WIDER_RATIO * max(alike, step_ticks)
        return alike

    def bracket_jitter2(self, step_ticks: float) -> float:
        """Variance of the bracket in ticks, as additions show it, which all take the same: what the clock's step adds
        is not in it."""
        additions = self.additions[undisturbed(self.additions, step_ticks)]
        return float(additions.var()) - quantised_variance(float(additions.mean()), step_ticks)

    def excess_ticks2(self, chosen: NDArray[np.bool_], step_ticks: float) -> float:
        """By how much the variance of some loads (shape (n,)) exceeds that of the additions, ticks squared. These are
        all alike, so what they differ by is the bracket and the clock; what loads differ by beyond that is the lines'
        own. Only for clocks whose step is short beside what lines differ by: a longer one hides it, or adds its own, as
        the loads happen to end before or behind a step."""
        additions = self.additions[undisturbed(self.additions, step_ticks)]
        return float(self.loads[chosen].var()) - float(additions.var())

    def fastest(self, step_ticks: float) -> NDArray[np.bool_]:
        """Which of the loads, shape (n,), are of the lines that answer fastest, where lines are timed repeatedly."""
        return fastest_lines(self.loads, self.line, self.turn, self.pages, step_ticks)
