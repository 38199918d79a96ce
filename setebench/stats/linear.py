"""Counts against known amounts of work: how much each unit adds, and whether every unit adds the same.

What a measurement costs beside the work (opening an interval, reading a counter) is the intercept and drops out of the
slope: the difference of n and 2n that nanoBench takes (Abel and Reineke 2020), over as many amounts as there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def slopes(amounts: Numbers, counts: Numbers) -> Numbers:
    """Least-squares slope of each epoch, shape (epochs,). Amounts have shape (n,), counts (epochs, n), n >= 2."""
    centred = amounts - amounts.mean()
    found: Numbers = (counts - counts.mean(axis=1, keepdims=True)) @ centred / (centred @ centred)
    return found
