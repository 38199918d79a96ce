"""CPUs that stream at once, each over memory of its own."""

from __future__ import annotations

from collections.abc import Mapping

from setebench.errors import UnsupportedError
from setebench.experiments.streams.choice import WIDTHS, nodes_for, widths_of
from setebench.machine import BindsMemory, Region
from setebench.probe import Base, Probe
from setebench.probe.kernels import BLOCK_BYTES, MOST_ARRAY_BYTES
from setebench.scenario import Context

ARRAYS = Base("arrays")


class Team:
    """Memory of each CPU, in the largest pages, full of numbers other than zero: some cores save themselves the writing
    of zeros, and pages that were only read may all be one."""

    def __init__(self, context: Context, sizes: Mapping[int, int], *, remote: bool = False) -> None:
        """So many bytes by CPU. Each CPU writes its own first, so that it lies on its memory node; `remote` memory is
        bound to the farthest node instead. Raises `UnsupportedError` where there is less, or none further away."""
        self._context = context
        self.regions: dict[int, Region] = {}
        try:
            for cpu, size in sizes.items():
                self.regions[cpu] = self._remote(cpu, size) if remote else self._local(size)
                self._fill(cpu)
            if remote:
                self._check_remote()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the memory back."""
        for region in self.regions.values():
            self._context.machine.release(region)
        self.regions = {}

    def _local(self, size: int) -> Region:
        machine = self._context.machine
        return machine.allocate(size, max(machine.facts.page_sizes), populate=False)

    def _remote(self, cpu: int, size: int) -> Region:
        machine, nodes = self._context.machine, nodes_for(self._context.machine.facts, cpu)
        if nodes is None or not isinstance(machine, BindsMemory):
            raise UnsupportedError(f"{machine.facts.name} has no memory further from CPU {cpu} than its own")
        return machine.allocate_on(size, max(machine.facts.page_sizes), nodes[1])

    def _fill(self, cpu: int) -> None:
        machine, region = self._context.machine, self.regions[cpu]
        width, whole = WIDTHS[widths_of(machine.facts)[0]], region.size // BLOCK_BYTES * BLOCK_BYTES
        for at in range(0, whole, MOST_ARRAY_BYTES):
            size = min(MOST_ARRAY_BYTES, whole - at)
            machine.run(Probe().stream(ARRAYS, "store", size, width).fence(), {ARRAYS: [region.address + at]}, cpu=cpu)

    def _check_remote(self) -> None:
        """Raise `UnsupportedError` if the system put pages elsewhere all the same."""
        machine = self._context.machine
        assert isinstance(machine, BindsMemory)
        for cpu, region in self.regions.items():
            nodes = nodes_for(machine.facts, cpu)
            places = {machine.node_of(region, offset) for offset in (0, region.size // 2, region.size - 1)}
            if nodes is None or places - {nodes[1], None}:
                raise UnsupportedError(f"memory bound to node {nodes and nodes[1]} lies on {sorted(map(str, places))}")
