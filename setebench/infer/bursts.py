"""Which of many short rounds somebody else disturbed, told by what else was measured in them. Knows no machine.

A neighbour on the same core or cache pushes lines out for some milliseconds, and they answer from further out. A clock
step that is longer than the way to the next level hides them among the others, and every mean is raised by them. Rounds
can't be judged by the very values that are told of them: the lowest of many uncertain values are low by chance too. But
two ways of measuring, in turn in each round, suffer together and err apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setebench.infer.ticks import over_replicates

SHARES = (1.0, 0.5, 0.25, 0.125)
LEAST_CALM = 6
"""Shares of the rounds that may be calm; fewer rounds than this give no interval worth its name."""


def calm_rounds(told: ArrayLike, beside: ArrayLike) -> NDArray[np.int64]:
    """Numbers of the rounds whose values `told`, shape (rounds,), are not surely raised, as far as `beside`, what else
    was measured in each (shape (rounds,)), says which were calm.

    The largest share of the calmest rounds whose mean no smaller share undercuts by more than chance (the rule of
    Lepski 1990 for how much to average over): all rounds where nothing was disturbed."""
    values = np.asarray(told, dtype=np.float64)
    order = np.argsort(np.asarray(beside, dtype=np.float64), kind="stable")
    counts = sorted({max(int(share * len(order)), min(LEAST_CALM, len(order))) for share in SHARES}, reverse=True)
    estimates = [over_replicates(values[order[:count]]) for count in counts]
    halves = [estimate.high - estimate.value for estimate in estimates]
    for number, (count, estimate, half) in enumerate(zip(counts, estimates, halves, strict=True)):
        # a smaller share is part of this one, so what both err by alike cancels
        chance = [max(fewer**2 - half**2, 0.0) ** 0.5 for fewer in halves[number + 1 :]]
        undercut = [
            estimate.value > fewer.value + apart for fewer, apart in zip(estimates[number + 1 :], chance, strict=True)
        ]
        if not any(undercut):
            return np.sort(order[:count])
    return np.sort(order[: counts[-1]])
