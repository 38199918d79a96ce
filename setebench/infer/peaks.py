"""The best of several rounds, and between what that of another run would lie. Knows no machine.

Whatever else runs can only slow a stream down, so the best round says most of the machine. But how good the best is
depends on how much else ran, and that comes and goes. Rounds that lie apart in time, others between them, show by how
much: the spread of their bests is that between times, not that of one moment. Student's t makes of few rounds what few
rounds can say.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from setebench.infer.ticks import Estimate, t95
from setebench.stats.drift import LEAST_ROUNDS, drift_half_width

WIDEST = 3.0
"""An interval whose ends are further apart than this factor shows no rate. Two CPUs of a guest that now and then share
a core have half the rate then, which is still reported, with an interval that says so."""

ALIKE = 1.1
"""Rounds within this factor show a rate, however few they are: Student's t of two makes much of any difference."""


def best_of_rounds(rates: ArrayLike, relative: float, shared: bool = False) -> Estimate | None:
    """The greatest of what several rounds reached, shape (n,), from the 95 % interval of their mean on, which holds it
    as well, or up to it; `relative` of each end further. None for a single round, which says nothing of others.

    What is `shared` with others drifts in longer times than a run lasts: then the interval holds as much of that as
    `stats.drift` foretells."""
    series = np.asarray(rates, dtype=np.float64)
    if len(series) < 2:
        return None
    best, mean = float(series.max()), float(series.mean())
    half = t95(len(series) - 1) * float(series.std(ddof=1)) / len(series) ** 0.5
    if shared and len(series) >= LEAST_ROUNDS:
        half = max(half, drift_half_width(series, shared=True))
    return Estimate(best, max(mean - half, 0.0) * (1 - relative), max(best, mean + half) * (1 + relative))


def too_far_apart(rates: ArrayLike, estimate: Estimate) -> bool:
    """Whether rounds, shape (n,), differed so much that they and their estimate show no rate."""
    series = np.asarray(rates, dtype=np.float64)
    return bool(series.max() > ALIKE * series.min()) and estimate.high > WIDEST * estimate.low
