"""A machine that answers at random, and only to probes that stay within the memory that it gave out."""

from __future__ import annotations

from typing import Any

import numpy as np
from bare_machine import BareMachine, facts_of
from numpy.typing import NDArray

from setebench.calibration import Calibration, Levels
from setebench.errors import UnsupportedError
from setebench.experiments.alone import CONTROL
from setebench.machine import Region
from setebench.probe import ACCESSES, COLUMNS, Probe, placement_table
from setebench.scenario import Context

CYCLES = {"l1": 4.0, "l2": 14.0, "l3": 46.0, "memory": 300.0}
PAGE_BYTES = 4096
FIRST_PAGE = 0x1000_0003
"""Of the first region in small pages: neighbours of its pages, by exclusive or of page numbers, may lie outside."""


class BoundedMachine(BareMachine):
    """Memory of nobody lies between any two regions."""

    def __init__(self, line_size: int = 64) -> None:
        super().__init__()
        self.facts = facts_of("bounded", line_size=line_size, page_sizes=(4096, 2 << 20))
        self._regions: list[Region] = []
        self._rng = np.random.default_rng(1)

    def allocate(self, size: int, page_size: int, *, populate: bool = True) -> Region:
        last = self._regions[-1] if self._regions else None
        begin = last.address + last.size + PAGE_BYTES if last else FIRST_PAGE * PAGE_BYTES
        whole = -(-size // page_size) * page_size
        self._regions.append(Region(-(-begin // page_size) * page_size, whole, page_size, self.facts.line_size))
        return self._regions[-1]

    def link(self, region: Region, addresses: NDArray[np.int64]) -> None:
        assert ((addresses >= region.address) & (addresses < region.address + region.size)).all()

    def run(self, probe: Probe, placements: Any, *, cpu: int | None = None, warmup: int = 0) -> NDArray[np.int64]:
        if probe == CONTROL:
            raise UnsupportedError("no-operations")
        table = placement_table(probe, placements)
        accesses = probe.rows[np.isin(probe.rows[:, COLUMNS.index("kind")], [int(each) for each in ACCESSES])]
        for number, base in enumerate(probe.bases):
            offsets = accesses[accesses[:, COLUMNS.index("base")] == number, COLUMNS.index("offset")]
            if not len(offsets):
                continue
            least, most = table[:, number] + offsets.min(), table[:, number] + offsets.max()
            begins = np.array([each.address for each in self._regions])
            region = np.searchsorted(begins, least, side="right") - 1
            ends = np.array([each.address + each.size for each in self._regions])[region]
            outside = (region < 0) | (most >= ends)
            assert not outside.any(), f"{base.name} at {most[outside][0]:#x} lies beyond its region, in {probe}"
        return self._rng.integers(60, 400, (len(table) - warmup, probe.intervals))


def bounded(line_size: int = 64) -> Context:
    """A context whose clock is fine, and which sees no co-runners."""
    levels = Levels(cycles=CYCLES)
    return Context(
        machine=BoundedMachine(line_size),
        calibration=Calibration(levels=levels, line_bytes=line_size, step_ticks=1.0),
    )
