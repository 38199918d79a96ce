"""Many tests at once: Holm's for any false alarm at all, Benjamini and Hochberg's for the rate among those named.

Only small p-values need be kept, with how many tests there were: both procedures never look at larger ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Numbers = NDArray[np.float64]


def familywise(p: Numbers, tests: int) -> Numbers:
    """Adjusted p-values of Holm (1979): one at most alpha is an alarm, and at all tests together the probability of any
    false alarm is at most alpha, however they depend. `p` holds all those of `tests` tests that are at most some
    limit; adjusted ones up to that limit are right."""
    order = np.argsort(p, kind="stable")
    raised = p[order] * (tests - np.arange(len(p)))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(raised), 1.0)
    return adjusted


def false_discovery(p: Numbers, tests: int) -> Numbers:
    """Adjusted p-values of Benjamini and Hochberg (1995): of those at most q, a fraction of q is false on average. `p`
    as for `familywise`."""
    if not len(p):
        return p.copy()
    found: Numbers = np.minimum(stats.false_discovery_control(p) * (tests / len(p)), 1.0)
    return found
