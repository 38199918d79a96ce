"""Chains some of whose lines were pushed out of their level: which of them lost none. Knows no machine.

With 7 % of lines lost most chains of 16 have lost one, but most chains of 8 none. The largest group of each would be
compared with what is no like of it, and one round has too few chains to tell their groups apart; all rounds together
have enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.infer.ticks import groups, mean_ticks

MOSTLY_ALONE = 0.5
"""Where more of the long chains than this lose no line, these are the largest group in every round."""

LEAST_CHAINS = 6
"""So many long chains of all rounds should have lost no line for their group to be told from strays."""

ABOUT = (0.5, 1.5)
"""A group that holds so many times the share foretold is the one. A chain of 16 with one line too fast would be as
common as the least only if 3 % of lines were; one with more is several that the histogram doesn't part."""

MOST_FASTER = 0.01
"""With more lines than this faster than the level, the fastest chains may hold some of them."""


@dataclass(frozen=True)
class Chained:
    """One round's chains of two lengths: ticks of the short and of the long ones, shape (n,) each, and their steps."""

    short: NDArray[np.int64]
    long: NDArray[np.int64]
    short_steps: int
    long_steps: int
    cycles_per_tick: float


def steps_alone(rounds: Sequence[Chained], alone: float, faster: float, step_ticks: float) -> list[float]:
    """Cycles per step of the chains that lost no line, a value for every round that has some; empty where that can't be
    told or needs no telling. Of single loads the share `alone` came from the level, and `faster` from a nearer one."""
    if not rounds or faster > MOST_FASTER:
        return []
    first = rounds[0]
    expected = alone**first.long_steps
    if expected > MOSTLY_ALONE or expected * sum(len(each.long) for each in rounds) < LEAST_CHAINS:
        return []
    short = _span([each.short for each in rounds], alone**first.short_steps, step_ticks)
    long = _span([each.long for each in rounds], expected, step_ticks)
    if short is None or long is None:
        return []
    steps = (_step(each, short, long, step_ticks) for each in rounds)
    return [cycles for cycles in steps if cycles is not None]


def _span(ticks: Sequence[NDArray[np.int64]], expected: float, step_ticks: float) -> tuple[int, int] | None:
    """From where to where the chains reach that lost no line: the fastest group with about the share foretold."""
    pooled = np.concatenate(ticks)
    for group in groups(pooled, step_ticks):
        if group.mean() >= ABOUT[0] * expected:
            whole = group.mean() <= ABOUT[1] * expected
            return (int(pooled[group].min()), int(pooled[group].max())) if whole else None
    return None


def _step(one: Chained, short: tuple[int, int], long: tuple[int, int], step_ticks: float) -> float | None:
    own_short = one.short[(one.short >= short[0]) & (one.short <= short[1])]
    own_long = one.long[(one.long >= long[0]) & (one.long <= long[1])]
    if not len(own_short) or not len(own_long):
        return None
    ticks = mean_ticks(own_long, step_ticks) - mean_ticks(own_short, step_ticks)
    return ticks * one.cycles_per_tick / (one.long_steps - one.short_steps)
