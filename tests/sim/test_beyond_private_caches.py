"""What lies behind private caches: third levels for victims; lines that go by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from quiet_machines import HUGE, L1, L3, LINE, LINE_BASE, MEMORY, cycles, quiet, timed

from setebench.probe import Probe
from setebench.sim import spec
from setebench.sim.inspect import cached_lines
from setebench.sim.machine import SimulatedMachine

SMALL: dict[str, Any] = {"l1": {"sets": 1, "ways": 2}, "l2": {"sets": 64, "ways": 2}}


def cached_in(machine: SimulatedMachine, address: int) -> set[int]:
    """Levels whose caches hold the line at an address."""
    return {level for level in (1, 2, 3) if address // LINE in cached_lines(machine, level)}


@pytest.mark.parametrize(
    ("inclusion", "after_load", "after_eviction", "after_hit"),
    [
        ("neither", {1, 2, 3}, {3}, {1, 2, 3}),
        ("exclusive", {1, 2}, {3}, {1, 2}),
        ("victim", {1, 2}, {3}, {1, 2, 3}),
    ],
)
def test_who_holds_a_line(inclusion: str, after_load: set[int], after_eviction: set[int], after_hit: set[int]) -> None:
    machine = quiet(**SMALL, l3={"inclusion": inclusion})
    region = machine.allocate(HUGE, HUGE)
    first = {LINE_BASE: [region.address]}
    others = region.address + np.arange(1, 5) * 64 * LINE
    assert cycles(machine, timed(LINE_BASE), first)[0] >= MEMORY
    assert cached_in(machine, region.address) == after_load
    machine.run(Probe().load(LINE_BASE).fence(), {LINE_BASE: others})
    assert cached_in(machine, region.address) == after_eviction
    assert cycles(machine, timed(LINE_BASE), first) == [L3]
    assert cached_in(machine, region.address) == after_hit


# -- lines that leave private caches by themselves, because others need their entries of a directory -----------------


LINES, WAIT = 256, 100_000


def kept(interval: float, share: float, waits: int = 1) -> list[int]:
    """Latencies of lines that were loaded before so many waits of 100,000 cycles."""
    machine = quiet(noise=spec.Noise(loss_interval_cycles=interval, loss_share=share))
    region = machine.allocate(HUGE, HUGE)
    where = region.address + np.arange(LINES) * LINE
    machine.run(Probe().load(LINE_BASE).fence(), {LINE_BASE: where})
    machine.run(Probe().wait(WAIT), waits)
    return cycles(machine, timed(LINE_BASE), {LINE_BASE: where})


def test_lines_go_to_memory_at_the_rate_of_the_bursts() -> None:
    assert kept(0.0, 0.5).count(L1) == LINES
    few, many = (kept(WAIT / 20, share) for share in (0.01, 0.1))
    assert 0.6 * LINES < few.count(L1) < 0.95 * LINES, "exp(-20 * 0.01) of them, and fewer while they are read"
    assert many.count(L1) < 0.35 * LINES, "exp(-2)"
    assert set(few) <= {L1, MEMORY}, "no cache has what left"
