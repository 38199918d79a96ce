"""Sweeps of working sets: where mean latencies rise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def rising(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The highest sequence that never falls and nowhere exceeds `values`, shape (n,): a larger working set can't be
    faster, and disturbances only slow a walk down, so a point above a later one was disturbed."""
    smooth: NDArray[np.float64] = np.minimum.accumulate(values[::-1])[::-1]
    return smooth
