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


def bends(amounts: Numbers, counts: Numbers) -> Numbers:
    """How much steeper the last step is than the first, relative, of each epoch; shape (epochs,); 0 for a line, NaN
    where the first step adds nothing. Shapes as in `slopes`, n >= 3."""
    steps = np.diff(counts, axis=1) / np.diff(amounts)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Numbers = np.where(steps[:, 0] == 0, np.nan, steps[:, -1] / steps[:, 0] - 1.0)
    return found
