"""Ticks of paired probes on a synthetic core whose clock wanders, jumps and is interrupted as was recorded on a guest.

Medians of two 10 us blocks of the recording differ by 0.2 % at a distance of 0.1 ms, 0.35 % at 1 ms, 0.7 % at 10 ms,
1.4 % at 100 ms and 4 % at 1 s; in 8 % of the time the core is 3.5 to 7 % slower, or 4 % faster, for 10 to some 100 us;
2,500 interrupts a second take 2 to 80 us."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from setebench.stats.pairs import Paired

Floats = NDArray[np.float64]

WANDERING = {100.0: 0.0021, 1e3: 0.003, 1e4: 0.006, 1e5: 0.012, 1e6: 0.038}
"""Standard deviation of the pace's logarithm by the time in microseconds that it takes to be forgotten."""

GRID_US = 0.25

REFERENCE_CYCLES = 3000.0
"""Of the work that each sample begins and ends with."""


@dataclass(frozen=True, kw_only=True)
class Core:
    """A core and its clock: `step` ticks, of `ticks_per_us`; a bracket adds `bracket` ticks with a standard deviation
    of `jitter`. `excursions` and `interrupts` per millisecond, of which none may happen."""

    step: float = 2.0
    ticks_per_us: float = 2100.0
    cycles_per_us: float = 2500.0
    bracket: float = 70.0
    jitter: float = 8.0
    excursions: float = 2.5
    interrupts: float = 2.5
    wandering: bool = True

    def paired(self, rng: np.random.Generator, questions: tuple[float, ...], samples: int, accesses: int = 1) -> Paired:
        """Samples of a probe whose questions take so many core cycles each, in one run of the core."""
        works = np.array([REFERENCE_CYCLES, 0.0, *questions, REFERENCE_CYCLES])
        lengths = 1.1 * works / self.cycles_per_us + 2 * (self.bracket + self.step) / self.ticks_per_us
        begins = np.arange(samples)[:, None] * lengths.sum() + np.cumsum(lengths) - lengths
        begins += self.step * rng.random(begins.shape) / self.ticks_per_us  # dither
        done = self._done(rng, samples * lengths.sum() + 5000)
        times = np.arange(len(done)) * GRID_US
        # An interrupt is over before a clock is read again: what is done is a little more than at its end.
        begun = np.interp(begins, times, done) + 1e-3
        begins, ends = np.interp(begun, done, times), np.interp(begun + works, done, times)
        ends += (self.bracket + self.jitter * rng.normal(size=ends.shape)) / self.ticks_per_us
        ticks = self._read(ends) - self._read(begins)
        return Paired(ticks=ticks, step_ticks=self.step, reference_cycles=REFERENCE_CYCLES, accesses=accesses)

    def _read(self, us: Floats) -> NDArray[np.int64]:
        return (np.floor(us * self.ticks_per_us / self.step) * self.step).astype(np.int64)

    def _done(self, rng: np.random.Generator, us: float) -> Floats:
        """Core cycles that were done by each moment of the grid."""
        count, keep = int(us / GRID_US), float(np.exp(-0.25))
        logarithm = np.zeros(count)
        for forgotten, deviation in WANDERING.items() if self.wandering else ():
            kicks = rng.normal(0.0, deviation * np.sqrt(1 - keep**2), int(4 * us / forgotten) + 3)
            nodes, _ = lfilter([1.0], [1.0, -keep], kicks, zi=[rng.normal(0.0, deviation)])
            logarithm += np.interp(np.arange(count) * GRID_US, np.arange(len(nodes)) * forgotten / 4, nodes)
        for begin, length in self._events(rng, us, self.excursions, 20.0, 0.7):
            depth = 0.04 if rng.random() < 0.25 else -rng.uniform(0.035, 0.07)
            logarithm[begin : begin + length] += depth
        pace = self.cycles_per_us * np.exp(logarithm)
        for begin, length in self._events(rng, us, self.interrupts, 3.8, 1.2):
            pace[begin : begin + length] = 1e-6  # not 0, so that a number of cycles is done at one moment alone
        return np.concatenate([[0.0], np.cumsum(pace) * GRID_US])

    def _events(
        self, rng: np.random.Generator, us: float, each_ms: float, median_us: float, sigma: float
    ) -> list[tuple[int, int]]:
        """Begins and lengths, in places of the grid, of what happens so often."""
        number = rng.poisson(each_ms * us / 1000)
        lengths = np.maximum(median_us * np.exp(rng.normal(0.0, sigma, number)), 1.8) / GRID_US
        begins = rng.uniform(0, us, number) / GRID_US
        return [(int(begin), int(length)) for begin, length in zip(begins, lengths, strict=True)]


QUIET = Core(excursions=0.0, interrupts=0.0, wandering=False)
