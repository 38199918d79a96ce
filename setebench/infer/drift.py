"""How much of what a run saw goes on below the frequencies that it could see. Knows no machine.

What neighbours do to shared caches and memory comes and goes in milliseconds and in hours alike: a spectrum that falls
with frequency, with about as much power in every octave ("flicker"). A mean over one run averages out what is faster
than the run. What is slower is the same all through the run, looks like precision, and is gone in the next run. The
Allan variance tells the two apart: for means over b neighbouring rounds it falls as 1 / b where rounds are independent,
and stays where power is alike in every octave (D. W. Allan, Proc. IEEE 54, 1966).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setebench.infer.ticks import Estimate, over_rounds, t95

LEAST_BLOCKS = 4
"""Means over so many rounds that a run has this many of them still count; of fewer the variance says nothing."""

CUT = 0.05
"""Rounds are cut to what all but this share at either end are: a burst is no drift."""

OCTAVES = 10
"""An interval holds for runs within a time about a thousand times as long as the run: an hour for some seconds."""


def allan_variances(series: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lengths of blocks of neighbouring values (1, 2, 4, ...), and half the mean square of the difference of
    neighbouring blocks' means, over all places; shape (n,) each. The series needs `LEAST_BLOCKS` values."""
    sums = np.concatenate([[0.0], np.cumsum(series - series.mean())])
    lengths, variances = [], []
    length = 1
    while len(series) // length >= LEAST_BLOCKS:
        means = (sums[length:] - sums[:-length]) / length
        lengths.append(float(length))
        variances.append(0.5 * float(np.mean((means[length:] - means[:-length]) ** 2)))
        length *= 2
    return np.array(lengths), np.array(variances)


def flicker_variance(series: NDArray[np.float64]) -> float:
    """The part of the Allan variance that longer blocks don't lessen, 0 where it falls as fast as that of independent
    values. Fitted as white / length + flicker, with weights in proportion to the length."""
    lengths, variances = allan_variances(series)
    if len(lengths) < 2:
        return 0.0
    shares = lengths / lengths.sum()
    inverse = 1.0 / lengths
    middle, level = float((shares * inverse).sum()), float((shares * variances).sum())
    spread = float((shares * (inverse - middle) ** 2).sum())
    white = max(float((shares * (inverse - middle) * (variances - level)).sum()) / spread, 0.0)
    return max(level - white * middle, 0.0)


def over_run(values: ArrayLike, relative: float = 0.0) -> Estimate:
    """`over_rounds`, with room for drift that is slower than the run, as far as what the run saw foretells it.

    With as much power in every octave, the mean over one run differs from that over a time 2 ** n times as long by a
    variance of n / 2 times the flicker part of the Allan variance. That itself comes from a handful of blocks, so it is
    taken times Student's t of these."""
    estimate = over_rounds(values, relative)
    series = np.asarray(values, dtype=np.float64)
    if len(series) < LEAST_BLOCKS:
        return estimate
    flicker = flicker_variance(np.clip(series, *np.quantile(series, (CUT, 1.0 - CUT))))
    drift = t95(LEAST_BLOCKS) * float(np.sqrt(flicker * OCTAVES / 2))
    half = float(np.hypot(estimate.high - estimate.value, drift))
    return Estimate(estimate.value, estimate.value - half, estimate.value + half)
