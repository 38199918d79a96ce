"""How much of what a run saw goes on below the frequencies that it could see. Knows no machine.

What neighbours do to shared caches and memory comes and goes in milliseconds and in hours alike: a spectrum that falls
with frequency, with about as much power in every octave ("flicker"). A mean over one run averages out what is faster
than the run. What is slower is the same all through the run, looks like precision, and is gone in the next run. The
Allan variance tells the two apart: for means over b neighbouring rounds it falls as 1 / b where rounds are independent,
and stays where power is alike in every octave (D. W. Allan, Proc. IEEE 54, 1966).

The longest blocks, which tell flicker from nothing, are a handful, so the best estimate of it is 0 or far too much in
most runs. So no estimate is taken. All proportions of flicker to independent noise are held against what was seen, each
counts as much as it explains that, and the interval is that of all of them together.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setebench.infer.ticks import Estimate, over_rounds, t95

LEAST_ROUNDS = 4
"""Fewer rounds say nothing of drift."""

CUT = 0.05
"""Rounds are cut to what all but this share at either end are: a burst is no drift."""

OCTAVES = 10
"""An interval holds for runs within a time about a thousand times as long as the run: an hour for some seconds."""

NO_DRIFT = 1 / 3
"""How likely it is, before anything is seen, that there is no flicker at all. Loads from a core's own caches show none,
those from what is shared do; the other two thirds are spread evenly over the orders of magnitude."""

RATIOS = np.concatenate([[0.0], np.logspace(-4, 1, 26)])
"""Variance of flicker over that of independent noise in a round. Below, a hundred rounds are independent to a tenth
of their error; above, a round is all drift. A fifth of an order of magnitude apart, which no run can tell."""

MISSED = 0.05
"""How often an interval may miss."""

HALVINGS = 20
"""Of the half width's bracket: it is then known to a millionth."""


def allan_variances(series: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Half the mean square of the difference of neighbouring blocks of 1, 2, 4, ... values, and how many such
    differences there were; shape (n,) each. Blocks don't overlap, so that independent values give independent
    variances, each of as many degrees of freedom as it has differences. The series needs two values."""
    variances, counts = [], []
    while len(series) >= 2:
        pairs = series[: len(series) // 2 * 2].reshape(-1, 2)
        variances.append(0.5 * float(np.mean((pairs[:, 0] - pairs[:, 1]) ** 2)))
        counts.append(float(len(pairs)))
        series = pairs.mean(axis=1)
    return np.array(variances), np.array(counts)


def drift_half_width(series: NDArray[np.float64], shared: bool = False) -> float:
    """How far the mean of `series` (shape (n,), n >= 2, in the order of time) may be from that over a time
    2 ** `OCTAVES` times as long, with 95 % confidence.

    With as much power in every octave, the two differ by a variance of n / 2 times the flicker part of the Allan
    variance, n octaves apart. For each ratio the noise itself is unknown too, which gives a Student's t; all of them
    are weighted by their likelihood, the noise integrated out (with a prior of 1 / variance).

    What is `shared` with others drifts, whether a run sees it or not. Then no ratio counts that is below 1 / n, which
    in an octave is as much as what independent noise leaves in the mean of n rounds: no run can see less."""
    variances, counts = allan_variances(series)
    if not variances.any():
        return 0.0
    shapes = 2.0 ** -np.arange(len(variances))[None, :] + RATIOS[:, None]
    degrees = float(counts.sum())
    squares = (counts * variances / shapes).sum(axis=1)
    chances = -0.5 * (counts * np.log(shapes)).sum(axis=1) - 0.5 * degrees * np.log(squares)
    weights = np.exp(chances - chances.max())
    weights[0] *= NO_DRIFT * (len(RATIOS) - 1) / (1 - NO_DRIFT)
    if shared:
        weights[1.0 / len(series) > RATIOS] = 0.0
    weights /= weights.sum()
    errors = np.sqrt(squares / degrees * (1.0 / len(series) + RATIOS * OCTAVES / 2))
    return _half_width(weights, errors, degrees)


def _half_width(weights: NDArray[np.float64], errors: NDArray[np.float64], degrees: float) -> float:
    """Where the tails of a mixture of Student's t, each with its weight and standard error, hold `MISSED`."""
    low, high = 0.0, float(errors.max()) * t95(max(int(degrees), 1))
    likely = [(float(w), float(e)) for w, e in zip(weights, errors, strict=True) if w > MISSED * 1e-3]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        outside = sum(weight * _outside(middle / error, degrees) for weight, error in likely)
        low, high = (middle, high) if outside > MISSED else (low, middle)
    return high


def _outside(t: float, degrees: float) -> float:
    """How likely Student's t is further from 0 than `t`, by the normal deviate that is as rare (D. L. Wallace, Ann.
    Math. Stat. 30, 1959): right to a few thousandths."""
    deviate = (8 * degrees + 1) / (8 * degrees + 3) * math.sqrt(degrees * math.log1p(t * t / degrees))
    return math.erfc(deviate / math.sqrt(2.0))


def over_run(values: ArrayLike, relative: float = 0.0, shared: bool = False) -> Estimate:
    """`over_rounds`, with room for drift that is slower than the run, as far as what the run saw foretells it, and at
    least as much as it couldn't see of what is `shared` with others."""
    estimate = over_rounds(values, relative)
    series = np.asarray(values, dtype=np.float64)
    if len(series) < LEAST_ROUNDS:
        return estimate
    drift = drift_half_width(np.clip(series, *np.quantile(series, (CUT, 1.0 - CUT))), shared)
    half = max(estimate.high - estimate.value, drift)
    return Estimate(estimate.value, estimate.value - half, estimate.value + half)
