"""Streams on simulated machines: declared volumes against event counts."""

from __future__ import annotations

import pytest
from quiet_machines import LINE, MEMORY, quiet

from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.probe.kernels import BLOCK_BYTES, KERNELS, Kernel, stream_bytes
from setebench.sim import spec
from setebench.sim.inspect import counters
from setebench.sim.machine import SimulatedMachine

ARRAYS = Base("arrays")
SIZE = 1 << 13
EVENTS = ("load", "store", "mem_read", "mem_write")


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
    assert found["load"] * width == blocks * kernel.read_bytes
    assert found["store"] * width == blocks * kernel.written_bytes
    assert found["mem_read"] * LINE == blocks * (kernel.read_bytes + kernel.allocated_bytes)
    # what is written past the caches is in memory already; the rest follows when its lines are flushed
    assert found["mem_write"] * LINE == (blocks * kernel.written_bytes if kernel.bypass else 0)
    before = counters(machine)["mem_write"]
    cold(machine, region)
    late = counters(machine)["mem_write"] - before
    assert late * LINE == (0 if kernel.bypass else blocks * kernel.written_bytes)
    machine.release(region)
