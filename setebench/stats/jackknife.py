"""Standard error of any statistic of a time series, by leaving out one block of it at a time.

This is the delete-a-block jackknife (Quenouille 1949; Tukey 1958; Künsch 1989 for autocorrelated series): the statistic
is computed without each block in turn, and the spread of these values gives its standard error. It suits ratios of
sums, for which the formula of the error of a mean doesn't hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from setebench.stats.estimate import Estimate, over_epochs

Part = TypeVar("Part")

BLOCKS = 20
"""Largest number of blocks: the error itself is then known to 16 % (1 / sqrt(2 (blocks - 1))), and blocks are as long
as possible, so that slow drifts affect few of them."""

LEAST_BLOCKS = 4
"""Least number of blocks for a finite interval."""


def jackknife(parts: Sequence[Part], statistic: Callable[[Sequence[Part]], float | None]) -> Estimate | None:
    """Return the statistic of all `parts` (consecutive pieces of the series) with its standard error, found by leaving
    out one block of parts at a time; None if the statistic of all parts is None. The error is infinite if fewer than
    `LEAST_BLOCKS` of these omissions have a statistic."""
    value = statistic(parts)
    if value is None:
        return None
    count = min(BLOCKS, len(parts))
    edges = [round(number * len(parts) / count) for number in range(count + 1)] if count else []
    without = (statistic([*parts[:low], *parts[high:]]) for low, high in pairwise(edges))
    found = over_epochs([each for each in without if each is not None])
    if found.degrees < LEAST_BLOCKS - 1:
        return Estimate(value=value, error=math.inf, degrees=0)
    return Estimate(value=value, error=found.degrees * found.error, degrees=found.degrees)
