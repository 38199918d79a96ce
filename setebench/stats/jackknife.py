"""The error of anything that is computed from a series of consecutive stretches: leave one block out at a time.

Delete-a-block jackknife (Quenouille 1949; Tukey 1958; Künsch 1989 for series whose neighbours are alike): the statistic
is computed again without each of some blocks, and the spread of these values gives its standard error. It suits ratios
of sums, whose error no formula of means gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from setebench.stats.estimate import Estimate, over_epochs

Part = TypeVar("Part")

BLOCKS = 20
"""At most so many blocks: the error is then itself known to some 16 % (1 / sqrt(2 (blocks - 1))), and each block is as
long as the series allows, so that what differs slowly lies within few of them."""

LEAST_BLOCKS = 4
"""Fewer say too little of their spread for an interval to be given."""


def jackknife(parts: Sequence[Part], statistic: Callable[[Sequence[Part]], float | None]) -> Estimate | None:
    """The statistic of all parts with its error; None where it can't be computed of all.

    Where fewer than `LEAST_BLOCKS` blocks allow it to be computed without them, the interval is infinite."""
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
