"""The clock of simulated machines: steps, dither, overhead, drift, jitter, interrupts."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import L1, LINE_BASE, PAGE, quiet

from setebench.probe import Probe
from setebench.sim import spec
from setebench.sim.inspect import counters


def test_ticks_are_multiples_of_the_step() -> None:
    machine = quiet(clock=spec.Clock(ticks_per_cycle=0.61, step_ticks=26, brackets={"lfence": 70.0}))
    ticks = machine.run(Probe().start().stop(), 500)
    assert set(np.unique(ticks % 26)) == {0}
    assert len(np.unique(ticks)) > 1


def test_a_fractional_step_rounds_to_whole_ticks() -> None:
    machine = quiet(clock=spec.Clock(step_ticks=24.45, brackets={"lfence": 70.0}))
    ticks = machine.run(Probe().start().add(100).stop(), 500)
    assert {int(value) for value in np.unique(ticks)} <= {147, 146, 171, 172, 195, 196}


@pytest.mark.parametrize("step", [26.0, 24.45])
def test_dither_makes_the_mean_of_coarse_ticks_unbiased(step: float) -> None:
    clock = spec.Clock(ticks_per_cycle=0.61, step_ticks=step, brackets={"lfence": 70.0})
    machine = quiet(clock=clock, seed=5)
    region = machine.allocate(PAGE, PAGE)
    here = {LINE_BASE: [region.address] * 6000}
    empty = machine.run(Probe().start().stop(), 6000).mean()
    load = machine.run(Probe().load(LINE_BASE).fence().start().load(LINE_BASE).stop(), here).mean()
    error = 3 * step * 0.5 / np.sqrt(6000)
    assert empty == pytest.approx(70 * 0.61, abs=error)
    assert load == pytest.approx((70 + L1) * 0.61, abs=error)


def test_each_bracket_has_its_overhead() -> None:
    machine = quiet(clock=spec.Clock(brackets={"rdtscp": 33.0, "lfence": 21.0}))
    assert machine.facts.brackets == ("rdtscp", "lfence")
    for bracket, expected in ((None, 33), ("rdtscp", 33), ("lfence", 21)):
        probe = Probe().start(dither=False, bracket=bracket).stop(bracket=bracket)
        assert machine.run(probe, 3)[:, 0].tolist() == [expected] * 3


def test_drift_moves_the_ratio_slowly_and_keeps_its_mean() -> None:
    clock = spec.Clock(drift=0.05, drift_period_cycles=200_000, brackets={"lfence": 0.0})
    machine = quiet(clock=clock)
    ticks = machine.run(Probe().start(dither=False).add(1000).stop(), 3000)[:, 0]
    assert ticks.min() == pytest.approx(950, abs=3)
    assert ticks.max() == pytest.approx(1050, abs=3)
    assert ticks.mean() == pytest.approx(1000, abs=5)
    assert np.abs(np.diff(ticks)).max() < 5


def test_jitter_is_bounded_and_centred() -> None:
    clock = spec.Clock(jitter_cycles=5, brackets={"lfence": 30.0})
    ticks = quiet(clock=clock).run(Probe().start(dither=False).stop(), 3000)[:, 0]
    assert 24 <= ticks.min() < 27
    assert 33 < ticks.max() <= 36
    assert ticks.mean() == pytest.approx(30, abs=0.5)


def test_interrupts_come_at_their_rate_and_disturb_the_caches() -> None:
    noise = spec.Noise(interrupt_interval_cycles=50_000, interrupt_cycles=4000, interrupt_lines=64)
    machine = quiet(noise=noise)
    ticks = machine.run(Probe().start(dither=False).add(100).stop(), 20_000)[:, 0]
    hit = ticks > 4000
    assert 10 < hit.sum() < 120  # about 20,000 x 120 / 50,000
    assert counters(machine)["interrupts"] >= hit.sum()
    region = machine.allocate(32768, PAGE)
    machine.run(Probe().load(LINE_BASE), {LINE_BASE: region.address + np.arange(512) * 64})
    before = counters(machine)["l1_misses"]
    machine.run(Probe().wait(400_000).fence("l").wait(10), 3)
    machine.run(Probe().load(LINE_BASE), {LINE_BASE: region.address + np.arange(512) * 64})
    assert counters(machine)["l1_misses"] > before


def test_stalls_only_take_time() -> None:
    machine = quiet(noise=spec.Noise(stall_interval_cycles=10_000, stall_cycles=300))
    ticks = machine.run(Probe().start(dither=False).add(100).stop(), 5000)[:, 0]
    assert ticks.min() == 120
    assert set(np.unique(ticks[ticks < 320])) == {120}
    assert 20 < (ticks > 300).sum() < 200
