"""The first step of a curve that rises with a number of lines or pages: how many fit. Knows no machine.

`excess(n)` tells how many cycles per access n entries cost above what they cost when they fit. It is measured anew at
every call, so that a step which is there once and gone the next time is not believed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

GROWTH = 1.25
"""Sizes tried on the way up; the step is then found between the last flat and the first raised one by halving."""

CONFIRMATIONS = 3
"""The last size that fits and the first that doesn't are measured so many times more."""


@dataclass(frozen=True)
class Capacity:
    """How many fit: `fits` did, every time; `spills` did not, every time (None: everything tried fits). Exact where
    they are neighbours."""

    fits: int
    spills: int | None

    @property
    def exact(self) -> bool:
        """Whether the capacity is known to the entry."""
        return self.spills == self.fits + 1


def twice(excess: Callable[[int], float], threshold_cycles: float) -> Callable[[int], float]:
    """`excess`, measured again where it was above the threshold, and the lower value told: an interrupt can raise it,
    nothing can lower it."""

    def lower(n: int) -> float:
        first = excess(n)
        return first if first <= threshold_cycles else min(first, excess(n))

    return lower


def capacity(excess: Callable[[int], float], start: int, limit: int, threshold_cycles: float) -> Capacity | None:
    """The largest n from `start` to `limit` at which `excess(n)` stays below the threshold; None where `start` itself
    does not fit."""

    def raised(n: int) -> bool:
        return excess(n) > threshold_cycles

    if raised(start):
        return None
    low, high = start, start
    while not raised(high):
        low = high
        if low >= limit:
            return Capacity(limit, None)
        high = min(limit, max(high + 1, int(high * GROWTH)))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if raised(middle) else (middle, high)
    return _confirmed(raised, start, low, high, limit)


def _confirmed(raised: Callable[[int], bool], start: int, low: int, high: int, limit: int) -> Capacity:
    """Measure both sides of the step again; move a side outwards as long as it does not hold."""
    for _ in range(CONFIRMATIONS):
        while low > start and raised(low):
            low -= 1
        while high < limit and not raised(high):
            high += 1
    return Capacity(low, high)
