"""The clock of simulated machines and what disturbs it: drift, interrupts, a recording."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import L1, LINE_BASE, PAGE, levels, quiet

from setebench.probe import Probe
from setebench.sim import spec
from setebench.sim.inspect import counters
from setebench.sim.truth.pace import machine_pace, seen_pace


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


def test_drift_moves_the_ratio_slowly_and_keeps_its_mean() -> None:
    clock = spec.Clock(drift=0.05, drift_period_cycles=200_000, brackets={"lfence": 0.0})
    machine = quiet(clock=clock)
    ticks = machine.run(Probe().start(dither=False).add(1000).stop(), 3000)[:, 0]
    assert ticks.min() == pytest.approx(950, abs=3)
    assert ticks.max() == pytest.approx(1050, abs=3)
    assert ticks.mean() == pytest.approx(1000, abs=5)
    assert np.abs(np.diff(ticks)).max() < 5


def test_interrupts_come_at_their_rate_and_disturb_the_caches() -> None:
    noise = spec.Noise(interrupt_interval_cycles=50_000, interrupt_cycles=4000, interrupt_lines=64)
    machine = quiet(noise=noise)
    ticks = machine.run(Probe().start(dither=False).add(100).stop(), 20_000)[:, 0]
    hit = ticks > 4000
    assert 10 < hit.sum() < 120  # about 20,000 x 120 / 50,000
    region = machine.allocate(32768, PAGE)
    machine.run(Probe().load(LINE_BASE), {LINE_BASE: region.address + np.arange(512) * 64})
    before = counters(machine)["load_l1_miss"]
    machine.run(Probe().wait(400_000).fence("l").wait(10), 3)
    machine.run(Probe().load(LINE_BASE), {LINE_BASE: region.address + np.arange(512) * 64})
    assert counters(machine)["load_l1_miss"] > before


# -- a recording that the clock replays ------------------------------------------------------------------------------

SHORT = 3000
"""Cycles of one sample: those that were recorded took as many."""


@pytest.mark.parametrize("name", ["drift", "recorded", ""])
def test_the_pace_that_was_seen_is_that_of_what_was_run(name: str) -> None:
    clock = spec.Clock(brackets={"lfence": 20.0}, drift=0.04 if name == "drift" else 0.0, drift_period_cycles=1e9)
    noise = spec.Noise(recorded="emerald-rapids-guest" if name == "recorded" else "")
    machine = quiet(7, noise=noise, clock=clock)
    ticks = machine.run(Probe().start(dither=False).wait(SHORT).stop(), 60_000)[:, 0]
    seen = seen_pace(machine)
    slowest, fastest = np.percentile((SHORT + 20) / ticks, (5, 95))
    assert seen.slowest == pytest.approx(slowest, abs=0.02) and seen.fastest == pytest.approx(fastest, abs=0.02)
    whole = machine_pace(spec.Machine(name="m", levels=levels(), clock=clock, noise=noise))
    assert whole.slowest <= seen.slowest + 0.05 and seen.fastest <= whole.fastest + 0.05
    assert (name == "") == (seen.slowest == seen.fastest == 1.0)
