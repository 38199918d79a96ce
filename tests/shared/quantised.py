"""What the tests of the estimators share: readings of a coarse clock, made from durations that are known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def read_clock(
    rng: np.random.Generator,
    durations: NDArray[np.float64],
    waits: NDArray[np.float64],
    step: float,
    phase: float = 0.0,
) -> NDArray[np.int64]:
    """Elapsed ticks of `durations` (shape (n,), ticks) that begin `waits` after the same phase of some clock step.

    The clock shows whole ticks of its last step, so a step that is no whole number adds a rounding at each end."""
    begin = rng.integers(0, 100_000, len(durations)) * step + phase + waits
    return _shown(begin + durations, step) - _shown(begin, step)


def _shown(time: NDArray[np.float64], step: float) -> NDArray[np.int64]:
    return np.floor(np.floor(time / step) * step).astype(np.int64)


def uniform_waits(rng: np.random.Generator, count: int, step: float) -> NDArray[np.float64]:
    """Waits spread evenly over one step."""
    return rng.random(count) * step


def triangular_waits(rng: np.random.Generator, count: int, step: float) -> NDArray[np.float64]:
    """The sum of two waits spread evenly over one step each."""
    return rng.random(count) * step + rng.random(count) * step
