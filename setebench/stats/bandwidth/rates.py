"""A rate of many accesses from rounds, some of which others took the CPU in."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from setebench.results import Finding, Outcome
from setebench.stats.estimate import Interval
from setebench.stats.rounds import RATE, quantile_of_rounds

PLACING = 0.03
"""Of a rate: what all rounds have in common, where pages and instructions lie."""

ATTENDED = 0.9
"""The least part of a round's time for which its threads had their CPUs, so that the round counts."""

LEAST_ROUNDS = 3
"""Where fewer rounds count by that, all of them do: a CPU is lost for milliseconds, and the samples of a round are
microseconds, of which those that it fell into are left out anyway."""


def counted(rates: ArrayLike, attended: ArrayLike) -> NDArray[np.float64]:
    """The rounds of which there is a rate, shape (rounds,), and in which the threads had their CPUs for the part that
    `attended` states; all of which there is a rate where these are too few."""
    known, parts = np.asarray(rates, dtype=np.float64), np.asarray(attended, dtype=np.float64)
    there = np.isfinite(known)
    quiet = there & (parts >= ATTENDED)
    return known[quiet if quiet.sum() >= LEAST_ROUNDS else there]


def of_threads(finding: Finding, cpus: int, attended: ArrayLike, shared: bool) -> Finding:
    """A rate of threads on so many CPUs, one-sided where too few rounds count by `attended`: threads that wait for each
    other seldom ran at once. A core then did no more than it can; of a `shared` level one thread alone has more."""
    if cpus == 1 or (np.asarray(attended) >= ATTENDED).sum() >= LEAST_ROUNDS or finding.value is None:
        return finding
    reason = "a thread shared its CPU with other programs in nearly all rounds; run again when they are idle"
    if shared:
        return msgspec.structs.replace(finding, value=None, outcome=Outcome.UNRESOLVED, reason=reason)
    return msgspec.structs.replace(finding, outcome=Outcome.AT_LEAST, reason=reason)


def rate_of_rounds(rounds: NDArray[np.float64]) -> Interval:
    """The 84th percentile of rounds, shape (rounds,), as what else runs only makes a rate less."""
    room = PLACING * float(rounds.max())
    found = quantile_of_rounds(rounds, RATE, (room, room))
    return Interval(found.value, max(found.low, 0.0), found.high)
