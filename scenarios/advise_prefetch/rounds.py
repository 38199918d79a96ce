"""How much passes of policies differ from round to round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MEDIAN_VARIANCE = np.pi / 2
"""Variance of a median over that of a mean, for a normal distribution."""

TO_DEVIATION = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""

Rows = NDArray[np.float64]


def deviation(logs: Rows) -> float:
    """Standard deviation of one pass, from what rounds and policies together don't explain (two-way layout)."""
    rounds = len(logs)
    if rounds < 2:
        return float("inf")
    rest = logs - np.median(logs, axis=1, keepdims=True)
    rest -= rest.mean(axis=0, keepdims=True)
    return float(TO_DEVIATION * np.median(np.abs(rest)) * np.sqrt(rounds / (rounds - 1)))
