"""From raw ticks to means. Knows no machine.

On a coarse clock one sample says next to nothing: a load of 4 cycles reads as 0 or 26 ticks. But when the wait before
each start is random over whole clock steps, the *mean* of many samples is unbiased. So nothing here takes a median or
trims quantised samples; only samples that a stall hit (an interrupt, a stolen time slice) are left out, and those lie
far outside the steps that the rest occupy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

STALL_SPANS = 4.0
"""A sample further above the median than this many spans (10 % to 90 %, at least one clock step) was hit by a stall.
Latency tails of memory (refresh, bank conflicts) end well below; an interrupt or a stolen slice lies far above."""


def undisturbed(ticks: NDArray[np.int64], step_ticks: float = 1.0) -> NDArray[np.bool_]:
    """Which samples (shape (n,)) no stall hit; see `STALL_SPANS`."""
    low, middle, high = np.quantile(ticks, (0.1, 0.5, 0.9))
    span = max(float(high - low), step_ticks, 1.0)
    without_stalls: NDArray[np.bool_] = ticks <= middle + STALL_SPANS * span
    return without_stalls


def mean_ticks(ticks: NDArray[np.int64], step_ticks: float = 1.0) -> float:
    """Mean of the undisturbed samples, ticks; unbiased below a step if the samples were dithered."""
    return float(ticks[undisturbed(ticks, step_ticks)].mean())
