"""A rate of many accesses from rounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.stats.estimate import Interval
from setebench.stats.rounds import RATE, quantile_of_rounds

PLACING = 0.03
"""Of a rate: what all rounds have in common, where pages and instructions lie."""


def rate_of_rounds(rounds: NDArray[np.float64]) -> Interval:
    """The 84th percentile of rounds, shape (rounds,), as what else runs only makes a rate less."""
    room = PLACING * float(rounds.max())
    found = quantile_of_rounds(rounds, RATE, (room, room))
    return Interval(found.value, max(found.low, 0.0), found.high)
