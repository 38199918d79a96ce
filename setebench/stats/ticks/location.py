"""Unbiased means of elapsed times that were read on a coarse clock.

On a clock with steps of 26 ticks, a load of 4 cycles reads as 0 or 26 ticks. If a random wait (dither) precedes each
start, the mean of many readings is unbiased, but a median or a trimmed mean is not. So only samples that a stall hit
(an interrupt, a time slice that the hypervisor stole) are left out; they are much longer than all others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

STALL_SPANS = 4.0
"""A sample counts as hit by a stall if it exceeds the median by more than so many spans; a span is the distance from
the 10 % to the 90 % quantile, at least one clock step. Memory refresh and bank conflicts add less, interrupts more."""


def undisturbed(ticks: NDArray[np.int64], step_ticks: float = 1.0) -> NDArray[np.bool_]:
    """Return a mask of the samples (ticks, shape (n,)) that no stall hit; `step_ticks` is the step of the clock."""
    low, middle, high = np.quantile(ticks, (0.1, 0.5, 0.9))
    span = max(float(high - low), step_ticks, 1.0)
    without_stalls: NDArray[np.bool_] = ticks <= middle + STALL_SPANS * span
    return without_stalls


def mean_ticks(ticks: NDArray[np.int64], step_ticks: float = 1.0) -> float:
    """Return the mean, in ticks, of the samples (shape (n,)) that no stall hit. If the samples' starts were dithered it
    is unbiased even where it is shorter than `step_ticks`, the step of the clock."""
    return float(ticks[undisturbed(ticks, step_ticks)].mean())
