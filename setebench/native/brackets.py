"""Clock brackets compared at start: what each costs, what it lets out of its interval, and which serves best."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from setebench.machine import Ticks
from setebench.native.memory import SMALL_PAGE, NativeRegion, map_region
from setebench.native.stitching import available
from setebench.probe import BRACKETS, Base, Placements, Probe
from setebench.stats.ticks.location import mean_ticks

_SLOW_BRACKET_SECONDS = 10e-6
"""A few instructions and a bracket take a tenth of this, unless the bracket leaves for a hypervisor."""

_PREFERRED, _ALIKE_TICKS = ("rdtscp", "lfence", "mfence", "cpuid"), 2.0
"""Among brackets that do about as well now, the order to take them in. rdtscp waits for loads by itself; an lfence
between the timed load and the clock adds six cycles to it on some cores in some states (Zen 3, measured), and such a
state may come after the brackets were compared."""

_ROUNDS = 5  # in turn: one burst of a neighbour must not decide which bracket is used
_COMPARED, _ADDITIONS = 32, 8  # intervals of a comparison, and additions in every second one
_LINE = Base("line")


class _Figures(NamedTuple):
    """What was measured of a bracket, in ticks: a load from memory over an empty interval (a bracket that lets the load
    out of its interval sees less than others), and a demerit: what it adds to a load more than to an addition, by how
    much the first instructions differ from later ones, and, a little, its cost. (The spread of an empty interval would
    say nothing: on a coarse clock it is small where the mean happens to be a whole number of steps.)"""

    miss: float
    demerit: float


@dataclass(frozen=True)
class Comparison:
    """Comparing the brackets of a machine whose clock step is measured.

    `run` takes a probe, its placements and how many repetitions at the begin to leave out; `dither_cycles` are the
    cycles of one clock step of `step_ticks`."""

    run: Callable[[Probe, Placements, int], Ticks]
    step_ticks: float
    dither_cycles: float

    def ranked(self) -> tuple[str, ...]:
        """The brackets that this CPU has, the best first."""
        region = map_region(SMALL_PAGE, SMALL_PAGE, True)
        names = [n for n in BRACKETS if available(f"start.{n}") and available(f"stop.{n}")]
        rounds = [
            [self._figures_of(name, region.address, self._hit_ticks(region)) for name in names] for _ in range(_ROUNDS)
        ]
        region.release()
        figures = {name: _Figures(*each) for name, each in zip(names, np.median(rounds, axis=0).tolist(), strict=True)}
        most = max(figures[name].miss for name in names if name != "rdpru")  # which counts cycles, not ticks
        complete = [name for name in names if name != "rdpru" and figures[name].miss > 0.8 * most]
        least = min(figures[name].demerit for name in complete)
        best = next(name for name in _PREFERRED if name in complete and figures[name].demerit < least + _ALIKE_TICKS)
        return (best, *(name for name in names if name != best))

    def _figures_of(self, bracket: str, address: int, hit_ticks: float) -> _Figures:
        """Measure one bracket with an empty interval, additions, loads that hit, and a load that misses.

        `hit_ticks` is what a load from L1 takes by a long chase."""
        # many intervals, as scenarios have them: the code around an interval has a say in what it costs
        compared = Probe()
        for number in range(_COMPARED):
            line = _LINE + 64 * (number // 2)
            compared = compared.load(line).fence().start(number, bracket=bracket)
            compared = (compared.load(line) if number % 2 else compared.add(_ADDITIONS)).stop(number, bracket=bracket)
        began = time.perf_counter()
        self.run(compared, {_LINE: np.full(24, address)}, 4)
        # one that leaves for the hypervisor, even outside its interval, is not worth the time of the fine figures
        slow = time.perf_counter() - began > 24 * _COMPARED * _SLOW_BRACKET_SECONDS
        ticks = self.run(compared, {_LINE: np.full(8 if slow else 80, address)}, 4)
        additions, hit = (mean_ticks(ticks[:, n::2].ravel(), self.step_ticks) for n in (0, 1))
        empty_interval = Probe().load(_LINE).fence().start(bracket=bracket).stop(bracket=bracket)
        empty = self._mean_ticks(empty_interval, address, 200)
        cold = Probe().flush(_LINE).fence().start(bracket=bracket).load(_LINE).stop(bracket=bracket)
        miss = self._mean_ticks(cold, address, 120) - empty
        around_addition = additions - _ADDITIONS * self.step_ticks / self.dither_cycles
        bias, hidden = abs(hit - hit_ticks - around_addition), abs(empty - around_addition)
        return _Figures(miss, bias + hidden + 0.01 * empty)

    def _hit_ticks(self, region: NativeRegion) -> float:
        """Ticks of a load from L1, from the difference of two long chases."""
        region.link(np.array([region.address]))
        chases = (Probe().start().chase(_LINE, steps).stop() for steps in (500, 2500))
        short, long = (self._mean_ticks(chase, region.address, 40) for chase in chases)
        return (long - short) / 2000

    def _mean_ticks(self, probe: Probe, address: int, repetitions: int) -> float:
        ticks = self.run(probe, {_LINE: np.full(repetitions, address)}, 8)
        return mean_ticks(ticks.ravel(), self.step_ticks)
