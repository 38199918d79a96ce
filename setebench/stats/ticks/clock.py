"""Estimate the step of a clock (the granularity of its readings, for instance 26 ticks) from elapsed times."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

COHERENT = 0.97
"""Least coherence of a step that is accepted: the mean cosine of the durations' angles on a circle whose circumference
is the step. It is 1 if all durations are exact multiples of the step."""

MOST_STEP_TICKS = 4096.0
"""The longest step, in ticks, that is searched for: with a longer one even loads from memory can't be measured."""

MOST_REACH_TICKS = 65536
"""Durations that exceed the shortest by more than so many ticks are ignored, which limits the transform's length."""


def clock_step(durations: NDArray[np.int64]) -> float:
    """Return the step of the clock in ticks, from elapsed times (shape (n,), ticks) that vary over many steps. Every
    duration is a whole number of steps, so on a circle whose circumference is one step all durations have the same
    angle. The Fourier transform of the durations' histogram gives the coherence of these angles for every
    circumference; the step is the largest circumference with enough coherence, or 1 tick if there is none. The true
    durations must not be equally spaced, or their spacing would be mistaken for the step."""
    usual = durations[durations <= np.quantile(durations, 0.98)]
    usual = usual[usual - usual.min() <= MOST_REACH_TICKS]
    reach = int(np.ptp(usual))
    if reach < 2:
        return 1.0
    points = 1 << (32 * reach - 1).bit_length()
    coherence = np.fft.rfft(np.bincount(usual % points, minlength=points)).real / len(usual)
    coherence = np.append(coherence, coherence[-2])  # the spectrum of real values is symmetric about its last frequency
    number = np.arange(max(int(points / min(MOST_STEP_TICKS, reach)), 1), len(coherence) - 1)
    before, here, behind = (coherence[number + side] for side in (-1, 0, 1))
    at = number[(here >= before) & (here > behind) & (here > _least_coherence(number / points, len(usual)))]
    if not len(at):
        return 1.0
    low, top, high = coherence[at[0] - 1 : at[0] + 2]
    return float(points / (at[0] + (low - high) / (2 * (low - 2 * top + high))))  # the vertex of a parabola


def _least_coherence(frequency: NDArray[np.float64], samples: int) -> NDArray[np.float64]:
    """Return the least coherence at which a step of 1 / `frequency` ticks is accepted, shape as `frequency`. If a step
    is not a whole number of ticks, both readings of a duration are rounded to ticks, and each rounding multiplies the
    coherence by sin(pi f) / (pi f), together 0.88 for 5.1 ticks; 3 standard errors (by `samples`) are subtracted."""
    left = np.sinc(frequency) ** 2
    return np.asarray(COHERENT * left - 3 * np.sqrt((1 - left**2) / samples))
