"""Pages with lines in overfull sets of a third cache, on simulated machines of known truth."""

from __future__ import annotations

import numpy as np
import pytest
from quiet_machines import L1, L3, MEMORY, PAGE, quiet

from setebench.measure.absent import Absent
from setebench.measure.crowded import crowd
from setebench.measure.thinning import Latencies
from setebench.scenario import Context

SETS, WAYS, SECOND_LINES = 4096, 8, 8192


@pytest.mark.parametrize("inclusion", ["neither", "exclusive"])
def test_what_was_there_before_crowds_no_pages(inclusion: str) -> None:
    """An exclusive cache that replaces at random would never lose it: a line that is used leaves a way empty for the
    next one, so that a set gives up a line only now and then, the walk's own as often as the old ones."""
    third = {"sets": SETS, "ways": WAYS, "replacement": "random", "inclusion": inclusion, "hashed_index": True}
    machine = quiet(l2={"sets": 1024, "ways": 8}, l3=third)
    context, region = Context(machine=machine), machine.allocate(16 << 20, PAGE)
    absent = Absent(context, region, Latencies(L1, L3, MEMORY))
    machine.link(region, region.address + region.line_size * np.arange(region.lines))  # all ways are taken
    capacity = SETS * WAYS + (SECOND_LINES if inclusion == "exclusive" else 0)
    found = crowd(context, region, absent, capacity, 1.25 * SECOND_LINES)
    assert found is not None
    assert len(found.clean) > 0.6 * context.evidence["crowded_pages"][-1][0]
