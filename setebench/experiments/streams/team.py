"""Memory of CPUs that stream at once, each over its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from setebench.errors import UnsupportedError
from setebench.experiments.streams.choice import WIDTHS, nodes_for, widths_of
from setebench.machine import BindsMemory, Machine, Region
from setebench.probe import Base, Probe
from setebench.probe.kernels import BLOCK_BYTES, MOST_ARRAY_BYTES

ARRAYS = Base("arrays")


@contextmanager
def arrays(machine: Machine, sizes: Mapping[int, int], *, remote: bool = False) -> Iterator[dict[int, Region]]:
    """So many bytes by CPU, in the largest pages, until the block ends. Each CPU writes its own first, so that it lies
    on its memory node; `remote` memory is bound to the farthest node instead. Raises `UnsupportedError` where there is
    less, or none further away."""
    found = dict[int, Region]()
    try:
        for cpu, size in sizes.items():
            if remote:
                found[cpu] = _bound(machine, cpu, size)
            else:
                found[cpu] = machine.allocate(size, max(machine.facts.page_sizes), populate=False)
                _fill(machine, cpu, found[cpu])
        yield found
    finally:
        for region in found.values():
            machine.release(region)


def _fill(machine: Machine, cpu: int, region: Region) -> None:
    """Numbers other than zero: some cores save themselves the writing of zeros, and pages that were only read may all
    be one."""
    width, whole = WIDTHS[widths_of(machine.facts)[0]], region.size // BLOCK_BYTES * BLOCK_BYTES
    for at in range(0, whole, MOST_ARRAY_BYTES):
        size = min(MOST_ARRAY_BYTES, whole - at)
        machine.run(Probe().stream(ARRAYS, "store", size, width).fence(), {ARRAYS: [region.address + at]}, cpu=cpu)


def _bound(machine: Machine, cpu: int, size: int) -> Region:
    """Memory on the node farthest from a CPU; raises `UnsupportedError` if the system put pages elsewhere all the
    same."""
    nodes = nodes_for(machine.facts, cpu)
    if nodes is None or not isinstance(machine, BindsMemory):
        raise UnsupportedError(f"{machine.facts.name} has no memory further from CPU {cpu} than its own")
    region = machine.allocate_on(size, max(machine.facts.page_sizes), nodes[1])
    _fill(machine, cpu, region)
    places = {machine.node_of(region, offset) for offset in (0, region.size // 2, region.size - 1)}
    if places - {nodes[1], None}:
        machine.release(region)
        raise UnsupportedError(f"memory bound to node {nodes[1]} lies on {sorted(map(str, places))}")
    return region
