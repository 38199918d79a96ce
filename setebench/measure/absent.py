"""Which of many lines a cache holds no longer: single loads, each of a line whose translation is warm."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setebench.infer.ticks import mean_ticks
from setebench.machine import Region
from setebench.measure.calibrate import step_ticks
from setebench.measure.layout import TLB_PAGE_BYTES
from setebench.measure.rings import Lines, cycles_per_tick
from setebench.measure.thinning import Latencies
from setebench.probe import Base, Probe
from setebench.scenario import Context

LINE, BESIDE = Base("line"), Base("beside")

CLEAR_STEPS = 2.0
"""Clock steps between two levels from which on one reading surely tells them apart: it errs by less than a step."""

SURE_STEPS, SURE_CYCLES = 0.1, 6.0
"""Where levels lie closer, clock steps, or cycles, by which an interval may be longer or shorter than was found: parts
of a third cache lie nearer than others, and memory answers sooner or later."""

STALL_RATIO = 1.4
"""A load that takes so many times what the outer level does met an interrupt or a stall, which says nothing of it."""

KEPT_TIMES = 2048
"""Loads of the first cache that others are compared with: on a clock of long steps each errs by half of one."""

SURE_ERRORS = 3.0
"""Standard errors by which a mean must lie to one side."""


class Absent:
    """Tells lines that a cache holds from those that only the level behind it does.

    The last line of every page, number `free`, must not be used otherwise: its flush warms the translation. A load
    there would teach prefetchers to bring the line that is timed."""

    def __init__(self, context: Context, region: Region, latencies: Latencies) -> None:
        self._context, self._region, self._cycles = context, region, latencies
        self.free = TLB_PAGE_BYTES // region.line_size - 1
        self._per_tick, self._step = cycles_per_tick(context), step_ticks(context)
        lines: Lines = (
            region.address + context.rng(81).permutation(region.size // TLB_PAGE_BYTES)[:KEPT_TIMES] * TLB_PAGE_BYTES
        )
        kept = Probe().load(LINE).fence().flush(BESIDE).fence().start().load(LINE).stop()
        self._kept_ticks = mean_ticks(self._ticks(kept, lines), self._step)

    @property
    def clear(self) -> bool:
        """Whether the clock is fine enough for single loads to tell the two levels apart."""
        most, least = self._apart
        return most < least or self._cycles.beyond - self._cycles.own > CLEAR_STEPS * self._step * self._per_tick

    @property
    def _apart(self) -> tuple[float, float]:
        """The longest reading of a line that the cache holds and the shortest of another one, in cycles. A clock that
        goes by steps reads the steps that fit into an interval or one more, so how far apart two levels must be, one
        step or two, depends on how much of a step is left over."""
        step = self._step * self._per_tick
        own = (self._kept_ticks + (self._cycles.own - self._cycles.first) / self._per_tick) / self._step
        beyond = own + (self._cycles.beyond - self._cycles.own) / step
        sure = max(SURE_STEPS, SURE_CYCLES / step)
        most, least = np.floor(own + sure) + 1.0 - own, np.floor(beyond - sure) - own
        return self._cycles.own + float(most) * step, self._cycles.own + float(least) * step

    def cycles(self, lines: Lines) -> NDArray[np.float64]:
        """Cycles of one load of each line, in this order; shape (n,) as `lines`."""
        ticks = self._ticks(Probe().flush(BESIDE).fence().start().load(LINE).stop(), lines)
        more: NDArray[np.float64] = ticks.astype(np.float64) - self._kept_ticks
        return more * self._per_tick + self._cycles.first

    def gone(self, cycles: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which of these loads came from behind the cache."""
        most, least = self._apart
        middle = (most + least) / 2 if most < least else (self._cycles.own + self._cycles.beyond) / 2
        return (cycles > middle) & (cycles < self.most_cycles)

    def readings(self, cycles: float) -> int:
        """How many loads of the cache's lines have a mean that surely lies above so many cycles, on this clock."""
        error = self._step * self._per_tick / 6**0.5  # of the difference of two readings
        return int(np.ceil((SURE_ERRORS * error / max(self._cycles.own - cycles, 1.0)) ** 2))

    @property
    def most_cycles(self) -> float:
        """Cycles from which on a load met a stall."""
        return STALL_RATIO * self._cycles.beyond + self._step * self._per_tick

    def _ticks(self, probe: Probe, lines: Lines) -> NDArray[np.int64]:
        beside = lines - lines % TLB_PAGE_BYTES + self.free * self._region.line_size
        places = {LINE: lines, BESIDE: beside}
        ticks: NDArray[np.int64] = self._context.machine.run(probe, places, cpu=self._context.cpu).ravel()
        return ticks
