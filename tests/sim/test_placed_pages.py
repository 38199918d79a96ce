"""Pages that lie beside each other in an open row of memory, on quiet machines: what is timed there is exact."""

from __future__ import annotations

from contextlib import closing

import pytest
from quiet_machines import MEMORY, OVERHEAD, PAGE, quiet

from setebench.experiments.lines.placing import Place
from setebench.scenario import Context
from setebench.sim import spec

REACH = 192 << 20
SAVED = 60.0


@pytest.mark.parametrize("frame_run_pages", [1, 16, 64])
def test_lines_of_memory_are_seldom_in_a_row_that_is_open(frame_run_pages: int) -> None:
    """In neighbouring pages one in four was, where 16 frames lie in a row: 7 % less for all lines."""
    rows = {"banks": 64, "row_bytes": 8192, "row_hit_saves_cycles": SAVED}
    memory = spec.Memory(latency_cycles=MEMORY, frame_run_pages=frame_run_pages, page_sizes=(PAGE,), **rows)
    with closing(quiet(memory=memory)) as machine:
        place = Place(Context(machine=machine), machine.allocate(REACH, PAGE), "memory", 0.0)
        loads = place.time_singles(Context(machine=machine), 20) - OVERHEAD
    assert float(loads.mean()) == pytest.approx(MEMORY, abs=0.05 * SAVED)
