"""Which of many short rounds somebody else disturbed, told by what else was measured in them. Knows no machine.

A neighbour on the same core or cache pushes lines out for some milliseconds, and they answer from further out. A clock
step that is longer than the way to the next level hides them among the others, and every mean is raised by them. Rounds
can't be judged by the very values that are told of them: the lowest of many uncertain values are low by chance too. But
two ways of measuring, in turn in each round, suffer together, and what each errs by on its own is its own. (What they
err by alike without any burst, as the ruler of the round, makes the chosen ones low by a part of that.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setebench.infer.ticks import Estimate, over_replicates

SHARES = (1.0, 0.5, 0.25, 0.125)
LEAST_ROUNDS = 6
"""Shares of the rounds that may be calm; fewer rounds than this give no interval worth its name."""


def calm_rounds(told: ArrayLike, beside: ArrayLike) -> NDArray[np.int64]:
    """Numbers of the rounds whose values `told`, shape (rounds,), are not surely raised, as far as `beside`, what else
    was measured in each (shape (rounds,)), says which were calm.

    The largest share of the calmest rounds whose mean no smaller share undercuts by more than chance (the rule of
    Lepski 1990 for how much to average over): all rounds where nothing was disturbed."""
    values = np.asarray(told, dtype=np.float64)
    order = np.argsort(np.asarray(beside, dtype=np.float64), kind="stable")
    counts = sorted({max(int(share * len(order)), min(LEAST_ROUNDS, len(order))) for share in SHARES}, reverse=True)
    estimates = [over_replicates(values[order[:count]]) for count in counts]
    kept = next(n for n in range(len(counts)) if not _undercut(estimates[n:], counts[n:]))
    return np.sort(order[: counts[kept]])


def _undercut(estimates: list[Estimate], counts: list[int]) -> bool:
    """Whether the first estimate is higher than one of the others, which are of ever fewer of its rounds, by more than
    chance."""
    first = estimates[0]
    others = zip(estimates[1:], counts[1:], strict=True)
    return any(first.value > fewer.value + _chance(first, fewer, count / counts[0]) for fewer, count in others)


def _chance(all_rounds: Estimate, fewer: Estimate, share: float) -> float:
    """By how much the mean of a share of some rounds differs from that of all of them by chance. The smaller set is
    part of the larger one, so what both err by alike cancels; each one's spread is but an estimate of the rounds'."""
    half, all_half = fewer.high - fewer.value, all_rounds.high - all_rounds.value
    return float(max(half * (1.0 - share) ** 0.5, max(half**2 - all_half**2, 0.0) ** 0.5))
