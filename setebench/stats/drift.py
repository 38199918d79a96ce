"""How much of what a run saw goes on below the frequencies that it could see.

What neighbours do to shared caches and memory comes and goes in milliseconds and in hours alike: a spectrum that falls
with frequency, with about as much power in every octave ("flicker"). A mean over one run averages out what is faster
than the run. What is slower is the same all through the run, appears as precision, and is gone in the next run. The
Allan variance separates the two: for means over b neighbouring rounds it falls as 1 / b where rounds are independent,
and stays where power is alike in every octave (D. W. Allan, Proc. IEEE 54, 1966).

The longest blocks, which separate flicker from nothing, are a handful, so the best estimate of it is 0 or far too much
in most runs. So no estimate is taken. All proportions of flicker to independent noise are held against what was seen,
each counts as much as it explains that, and the interval is that of all of them together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from setebench.stats.estimate import CONFIDENCE, Estimate, errors_to_end, over_undisturbed_epochs

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
of their error; above, a round is all drift. A fifth of an order of magnitude apart, which no run can distinguish."""


def allan_variances(series: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Half the mean square of the difference of neighbouring blocks of 1, 2, 4, ... values, and how many such
    differences there were; shape (n,) each. Blocks don't overlap, so that independent values give independent
    variances, each of as many degrees of freedom as it has differences. The series needs two values."""
    variances, counts = [], []
    while len(series) >= 2:
        pairs = series[: len(series) // 2 * 2].reshape(-1, 2)
        variances.append(float(np.mean((pairs[:, 0] - pairs[:, 1]) ** 2)) / 2)
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
    chances = -((counts * np.log(shapes)).sum(axis=1) + degrees * np.log(squares)) / 2
    weights = np.exp(chances - chances.max())
    weights[0] *= NO_DRIFT * (len(RATIOS) - 1) / (1 - NO_DRIFT)
    if shared:
        weights[1.0 / len(series) > RATIOS] = 0.0
    weights /= weights.sum()
    errors = np.sqrt(squares / degrees * (1.0 / len(series) + RATIOS * OCTAVES / 2))
    return _half_width(weights, errors, degrees)


def _half_width(weights: NDArray[np.float64], errors: NDArray[np.float64], degrees: float) -> float:
    """Where the tails of a mixture of Student's t, each with its weight and standard error, hold what an interval
    misses."""
    missed = 1 - CONFIDENCE
    likely = (weights > missed * 1e-3) & (errors > 0)

    def excess(half: float) -> float:
        return float(weights[likely] @ (2 * special.stdtr(degrees, -half / errors[likely]))) - missed

    most = float(errors.max() * special.stdtrit(degrees, 1 - missed / 4))
    return float(optimize.brentq(excess, 0.0, most)) if excess(most) < 0 else most


def over_time(values: ArrayLike, *, shared: bool = False) -> Estimate:
    """The mean of epochs in the order of time (shape (n,)), with room for drift that is slower than the run, as far as
    what the run saw foretells it, and at least as much as it couldn't see of what is `shared` with others."""
    series = np.asarray(values, dtype=np.float64)
    estimate = over_undisturbed_epochs(series)
    if len(series) < LEAST_ROUNDS:
        return estimate
    drift = drift_half_width(np.clip(series, *np.quantile(series, (CUT, 1.0 - CUT))), shared)
    if drift <= estimate.half_width:
        return estimate
    degrees = len(series) - 1
    return Estimate(value=estimate.value, error=drift / errors_to_end(degrees), degrees=degrees)
