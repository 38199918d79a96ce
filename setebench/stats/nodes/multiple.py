"""Many tests at once: Holm's correction, for any false alarm at all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def familywise(p: Numbers) -> Numbers:
    """Adjusted p-values of Holm (1979): one at most alpha is an alarm, and at all tests together the probability of any
    false alarm is at most alpha, however they depend."""
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted
