"""Allocate the arrays of CPUs that stream at the same time, each over arrays of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from setebench.experiments.streams.choice import WIDTHS, widths_of
from setebench.machine import Machine, Region
from setebench.probe import Base, Probe
from setebench.probe.kernels import BLOCK_BYTES, MOST_ARRAY_BYTES
from setebench.scenario import Context

ARRAYS = Base("arrays")


@contextmanager
def arrays(context: Context, sizes: Mapping[int, int]) -> Iterator[dict[int, Region]]:
    """Allocate arrays (`sizes`: bytes by CPU) in the largest pages, and free them when the block ends. Each CPU writes
    its memory first, so that it lies on the CPU's NUMA node. Raises `UnsupportedError` if memory doesn't suffice."""
    machine, found = context.machine, dict[int, Region]()
    try:
        for cpu, size in sizes.items():
            found[cpu] = context.allocate(size, max(machine.facts.page_sizes), populate=False)
            _fill(machine, cpu, found[cpu])
            context.placed(found[cpu])
        yield found
    finally:
        for region in found.values():
            machine.release(region)


def _fill(machine: Machine, cpu: int, region: Region) -> None:
    """Write values other than zero to `region`: some cores skip zeros, and unwritten pages may share a frame."""
    width, whole = WIDTHS[widths_of(machine.facts)[0]], region.size // BLOCK_BYTES * BLOCK_BYTES
    for at in range(0, whole, MOST_ARRAY_BYTES):
        size = min(MOST_ARRAY_BYTES, whole - at)
        machine.run(Probe().stream(ARRAYS, "store", size, width).fence(), {ARRAYS: [region.address + at]}, cpu=cpu)
