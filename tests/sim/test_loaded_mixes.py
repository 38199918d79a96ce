"""Mixes of reads and writes on simulated machines: what each load moves, counted by the machine itself."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import LINE, MEMORY, quiet
from setebench.scenarios.loaded_latency.chase import STREAMS, LoadedChase
from setebench.scenarios.loaded_latency.params import PARAMS

from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.inspect import counters
from setebench.sim.machine import SimulatedMachine


@pytest.fixture(scope="module")
def machine() -> SimulatedMachine:
    return quiet(memory=spec.Memory(latency_cycles=MEMORY, interval_cycles=4.0), core=spec.Core(cores=2))


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_every_line_is_read_and_every_stored_one_goes_back(machine: SimulatedMachine, writes: int) -> None:
    chase = LoadedChase(Context(machine=machine, fast=True), (0,))
    rounds, repetitions = 32, 3
    try:
        chase.measure((), 0)
        probe = chase._load(0, 0, writes, rounds)
        before = counters(machine)
        machine.run(probe, {chase._bases[0]: np.full(repetitions, chase._starts[0])}, cpu=0)
        after = counters(machine)
    finally:
        chase.close()
    lines = PARAMS.segments * rounds * repetitions
    assert after["memory_reads"] - before["memory_reads"] >= STREAMS * lines
    written = after["memory_writes"] - before["memory_writes"]
    assert 0.9 * writes * lines <= written <= writes * lines


def test_writes_move_more_bytes_than_reads_at_the_same_delay(machine: SimulatedMachine) -> None:
    chase = LoadedChase(Context(machine=machine, fast=True), (0,))
    try:
        idle = chase.measure((), 0)
        reads, mixed = (chase.measure((0,), 512, writes) for writes in (0, 2))
    finally:
        chase.close()
    per_ns = machine.facts.ticks_per_second / 1e9
    assert np.median(idle.latency_ns) == pytest.approx(MEMORY / per_ns, rel=0.02)
    moved = LINE * STREAMS
    assert np.median(reads.gigabytes) > 0.5 * moved / 512 * per_ns
    assert np.median(mixed.gigabytes) > 1.2 * np.median(reads.gigabytes)
