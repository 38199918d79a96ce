"""Streams and mixes of reads and writes on simulated machines: declared volumes against event counts, and their
limits."""

from __future__ import annotations

from contextlib import closing

import pytest
from quiet_machines import LINE, MEMORY, quiet
from setebench.scenarios.loaded_latency.chase import STREAMS, LoadedChase, Reading, Step

from setebench.experiments.streams.budget import Budget
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.probe.kernels import BLOCK_BYTES, KERNELS, Kernel, stream_bytes
from setebench.scenario import Context
from setebench.sim import spec
from setebench.sim.inspect import counters
from setebench.sim.machine import SimulatedMachine

ARRAYS = Base("arrays")
SIZE = 1 << 13
EVENTS = ("loads", "stores", "memory_reads", "memory_writes")


@pytest.fixture(scope="module")
def machine() -> SimulatedMachine:
    """One for all tests: event counts are compared as differences."""
    return quiet(memory=spec.Memory(latency_cycles=MEMORY))


def cold(machine: SimulatedMachine, region: Region) -> None:
    away = Probe().repeat(region.lines, Probe().flush(ARRAYS), advance=LINE).fence()
    machine.run(away, {ARRAYS: [region.address]})


def events(
    machine: SimulatedMachine, kernel: Kernel, width: int, region: Region, rolled: bool = False
) -> dict[str, int]:
    before = counters(machine)
    probe = Probe().stream(ARRAYS, kernel.name, SIZE, width, rolled=rolled).fence()
    machine.run(probe, {ARRAYS: [region.address]})
    after = counters(machine)
    return {name: after[name] - before[name] for name in EVENTS}


@pytest.mark.parametrize("width", [8, 64])
@pytest.mark.parametrize(
    ("name", "rolled"),
    [(name, rolled) for name, kernel in KERNELS.items() if kernel.accesses for rolled in kernel.forms],
)
def test_event_counts_are_the_declared_volumes(machine: SimulatedMachine, name: str, rolled: bool, width: int) -> None:
    if width not in machine.facts.access_sizes:
        pytest.skip("this preset has no such accesses")
    kernel = KERNELS[name]
    region = machine.allocate(stream_bytes(kernel, SIZE), 4096)
    cold(machine, region)
    found = events(machine, kernel, width, region, rolled)
    blocks = SIZE // BLOCK_BYTES
    assert found["loads"] * width == blocks * kernel.read_bytes
    assert found["stores"] * width == blocks * kernel.written_bytes
    assert found["memory_reads"] * LINE == blocks * (kernel.read_bytes + kernel.allocated_bytes)
    # what is written past the caches is in memory already; the rest follows when its lines are flushed
    assert found["memory_writes"] * LINE == (blocks * kernel.written_bytes if kernel.bypass else 0)
    before = counters(machine)["memory_writes"]
    cold(machine, region)
    late = counters(machine)["memory_writes"] - before
    assert late * LINE == (0 if kernel.bypass else blocks * kernel.written_bytes)
    machine.release(region)


# -- loads of memory on simulated machines ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_cores() -> SimulatedMachine:
    return quiet(memory=spec.Memory(latency_cycles=MEMORY, interval_cycles=4.0), core=spec.Core(cores=2))


def test_a_loading_thread_moves_its_lines_once_a_delay(two_cores: SimulatedMachine) -> None:
    idle, reads = (measured(two_cores, step) for step in (Step(0, 0), Step(1, 512)))
    per_ns = two_cores.facts.ticks_per_second / 1e9
    assert idle.ns == pytest.approx(MEMORY / per_ns, rel=0.02)
    assert reads.gigabytes > 0.5 * LINE * STREAMS / 512 * per_ns


def measured(machine: SimulatedMachine, step: Step) -> Reading:
    with closing(LoadedChase(Context(machine=machine, cpu=1), (0,))) as chase:
        return chase.measure(step, Budget(machine.facts, 4.0))
