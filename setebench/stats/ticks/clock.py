"""What the ticks say of the clock itself: its step. Knows no machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

COHERENT = 0.97
"""A step is believed when the durations, as angles on a circle of that many ticks, point one way this well: 1 is as
alike as readings in whole ticks can be."""

MOST_STEP_TICKS = 4096.0
"""Longer steps are not looked for: loads from memory would fall into one step, and nothing could be measured."""

MOST_REACH_TICKS = 65536
"""Durations further above the shortest are left out: they say no more of the step, and cost time and memory."""


def clock_step(durations: NDArray[np.int64]) -> float:
    """Granularity of the clock in ticks, from elapsed times that vary over many steps (shape (n,), ticks).

    Every duration is a whole number of steps, so on a circle of one step's circumference all point the same way. The
    largest circumference where they do is the step; a Fourier transform of the durations' histogram, so fine that no
    peak of width 1/reach is missed, shows that of every step. A step of one tick is what is left when nothing larger
    fits. The true durations must not be equally far apart themselves, or their distance would look like a step."""
    usual = durations[durations <= np.quantile(durations, 0.98)]
    usual = usual[usual - usual.min() <= MOST_REACH_TICKS]
    reach = int(np.ptp(usual))
    if reach < 2:
        return 1.0
    points = 1 << (32 * reach - 1).bit_length()
    coherence = np.fft.rfft(np.bincount(usual % points, minlength=points)).real / len(usual)
    coherence = np.append(coherence, coherence[-2])  # beyond two readings a step it is the same backwards
    number = np.arange(max(int(points / min(MOST_STEP_TICKS, reach)), 1), len(coherence) - 1)
    before, here, behind = (coherence[number + side] for side in (-1, 0, 1))
    at = number[(here >= before) & (here > behind) & (here > _enough(number / points, len(usual)))]
    if not len(at):
        return 1.0
    low, top, high = coherence[at[0] - 1 : at[0] + 2]
    return float(points / (at[0] + (low - high) / (2 * (low - 2 * top + high))))  # the vertex of a parabola


def _enough(frequency: NDArray[np.float64], samples: int) -> NDArray[np.float64]:
    """The coherence from which that many steps per tick are believed.

    Where a step is no whole number of ticks, both readings of a duration are rounded, each by up to a tick. Each leaves
    sin(pi f) / (pi f) of the coherence: 0.88 together for a step of 5.1 ticks, where 5.0 ticks lose nothing. So many
    samples come within three standard errors of that."""
    left = np.sinc(frequency) ** 2
    return np.asarray(COHERENT * left - 3 * np.sqrt((1 - left**2) / samples))
