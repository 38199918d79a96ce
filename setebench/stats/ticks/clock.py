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
    largest circumference where they do is the step. A step of one tick is what is left when nothing larger fits. The
    true durations must not be equally far apart themselves, or their distance would look like a step."""
    usual = durations[durations <= np.quantile(durations, 0.98)]
    values, counts = np.unique(usual[usual - usual.min() <= MOST_REACH_TICKS], return_counts=True)
    reach = int(values[-1] - values[0])
    if reach < 2:
        return 1.0
    for frequency in _candidates(values, counts, reach):  # from the largest step down
        step = _rise(values, counts, frequency, reach)
        if step is not None:
            return step
    return 1.0


def _candidates(values: NDArray[np.int64], counts: NDArray[np.int64], reach: int) -> NDArray[np.float64]:
    """Steps per tick, ascending, near which the durations may point one way.

    Looked up on a grid so fine that no peak of width 1/reach is missed; a Fourier transform of the histogram is the
    coherence on all of it at once."""
    points = 1 << (16 * reach - 1).bit_length()
    spectrum = np.fft.rfft(np.bincount(values % points, weights=counts, minlength=points)).real / counts.sum()
    first = int(points / min(MOST_STEP_TICKS, reach))
    frequencies = np.arange(first, len(spectrum)) / points
    near: NDArray[np.float64] = frequencies[spectrum[first:] > _enough(frequencies, int(counts.sum())) - 0.05]
    return near


def _rise(values: NDArray[np.int64], counts: NDArray[np.int64], frequency: float, reach: int) -> float | None:
    """The step at the top of the peak beside `frequency`, None where that is too low.

    The peak is wider than a sample where most durations are short, so the look moves along while its best is its
    edge."""
    for _ in range(64):
        around = frequency + np.linspace(-1, 1, 401) / (16.0 * reach)
        coherence = _coherence(values, counts, around)
        best = int(np.argmax(coherence))
        frequency = float(around[best])
        if 0 < best < len(around) - 1:
            break
    return 1.0 / frequency if frequency > 0 and coherence[best] > _enough(frequency, int(counts.sum())) else None


def _enough(frequency: float | NDArray[np.float64], samples: int) -> NDArray[np.float64]:
    """The coherence from which that many steps per tick are believed.

    Where a step is no whole number of ticks, both readings of a duration are rounded, each by up to a tick. Each leaves
    sin(pi f) / (pi f) of the coherence: 0.88 together for a step of 5.1 ticks, where 5.0 ticks lose nothing. So many
    samples come within three standard errors of that."""
    left = np.sinc(np.asarray(frequency)) ** 2
    enough: NDArray[np.float64] = COHERENT * left - 3 * np.sqrt((1 - left**2) / samples)
    return enough


def _coherence(
    values: NDArray[np.int64], counts: NDArray[np.int64], frequencies: NDArray[np.float64]
) -> NDArray[np.float64]:
    angles = np.exp(2j * np.pi * np.outer(frequencies, values))
    real: NDArray[np.float64] = (angles @ counts).real / counts.sum()
    return real
