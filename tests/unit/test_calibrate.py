"""Clock calibrations against a machine whose clock, overhead and frequency are known."""

from __future__ import annotations

import numpy as np
import pytest
from bare_machine import BareMachine, facts_of
from quantised import read_clock, triangular_waits

from setebench.experiments.calibrate import cycles_per_tick, overheads, step_ticks
from setebench.machine import Ticks
from setebench.probe import Kind, Placements, Probe, placement_table
from setebench.scenario import Context


class Clockwork(BareMachine):
    """Every round of a wait and every chained addition takes one core cycle, a bracket `overhead` ticks."""

    facts = facts_of("clockwork", brackets=("lfence", "cpuid"))

    def __init__(self, step: float, ticks_per_cycle: float, overhead: float) -> None:
        super().__init__()
        self.step, self.ticks_per_cycle, self.overhead = step, ticks_per_cycle, overhead
        self._rng = np.random.default_rng(1)

    def run(self, probe: Probe, placements: Placements, *, cpu: int | None = None, warmup: int = 0) -> Ticks:
        count = len(placement_table(probe, placements))
        rounds, cycles = 1, 0
        for op in probe.operations:
            rounds = {Kind.REPEAT: op.count, Kind.END: 1}.get(op.kind, rounds)
            cycles += rounds * op.count if op.kind in (Kind.WAIT, Kind.ADD) else 0
        slow = any(op.variant == "cpuid" for op in probe.operations)
        duration = self.overhead + cycles * self.ticks_per_cycle + (9000 if slow else 0)
        waits = triangular_waits(self._rng, count, self.step)
        return read_clock(self._rng, np.full(count, duration), waits, self.step)[warmup:, None]


CLOCKS = [(26.0, 0.61), (24.4543, 0.76), (1.0, 0.7), (1.0, 1.0), (2.0, 0.9)]


def context(step: float, ticks_per_cycle: float, overhead: float = 43.0) -> Context:
    return Context(machine=Clockwork(step, ticks_per_cycle, overhead))


@pytest.mark.parametrize("overhead", [0.0, 43.0, 46.9, 67.0, 134.0])
@pytest.mark.parametrize(("step", "ticks_per_cycle"), CLOCKS)
def test_the_waits_themselves_do_not_look_like_a_step(step: float, ticks_per_cycle: float, overhead: float) -> None:
    """Evenly spaced waits would, wherever the overhead happens to be a multiple of their distance."""
    assert step_ticks(context(step, ticks_per_cycle, overhead)) == pytest.approx(step, rel=0.003)


@pytest.mark.parametrize(("step", "ticks_per_cycle"), CLOCKS)
def test_an_empty_interval_is_the_overhead(step: float, ticks_per_cycle: float) -> None:
    found = overheads(context(step, ticks_per_cycle, 42.7), 8000)
    assert list(found) == ["lfence", "cpuid"]
    # 8,000 samples on a step of 26 ticks: 0.15 ticks of standard error, and a tick of rounding where a step is no
    # whole number of ticks averages out
    assert found["lfence"] == pytest.approx(42.7, abs=0.7)
    assert found["cpuid"] == pytest.approx(9042.7, abs=3.5)


@pytest.mark.parametrize(("step", "ticks_per_cycle"), CLOCKS)
def test_chains_of_additions_show_how_many_cycles_a_tick_is(step: float, ticks_per_cycle: float) -> None:
    found = cycles_per_tick(context(step, ticks_per_cycle))
    assert found == pytest.approx(1 / ticks_per_cycle, rel=0.002)
