"""Lines that leave private caches by themselves, because others need their entries of a directory."""

from __future__ import annotations

import numpy as np
from quiet_machines import HUGE, L1, LINE, LINE_BASE, MEMORY, cycles, quiet, timed

from setebench.probe import Probe
from setebench.sim import spec
from setebench.sim.inspect import cached_in, counters

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


def test_a_long_rest_takes_nearly_all() -> None:
    assert kept(1000.0, 0.05, waits=20).count(L1) < 0.15 * LINES


def test_modified_lines_are_written_to_memory() -> None:
    machine = quiet(noise=spec.Noise(loss_interval_cycles=WAIT / 10, loss_share=1.0))
    region = machine.allocate(HUGE, HUGE)
    where = region.address + np.arange(LINES) * LINE
    machine.run(Probe().store(LINE_BASE).fence(), {LINE_BASE: where})
    machine.run(Probe().wait(WAIT), 20)
    gone = [address for address in where.tolist() if not cached_in(machine, address)]
    assert len(gone) > 0.9 * LINES
    assert counters(machine)["memory_writes"] >= len(gone)
