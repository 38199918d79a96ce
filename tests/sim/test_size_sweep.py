"""Levels of quiet machines of known latencies, from chains over growing working sets, and lines brought to them."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
from quiet_machines import L1, L2, L3, MEMORY, OVERHEAD, quiet

from setebench.calibration import Levels
from setebench.experiments.levels import find_levels
from setebench.scenario import Context
from setebench.sim import spec

COARSE = spec.Clock(step_ticks=24.0, brackets={"lfence": OVERHEAD, "mfence": OVERHEAD, "cpuid": OVERHEAD})
TIGHT = {"l1": {"ways": 10}, "l2": {"sets": 512, "ways": 4}}
"""40 KiB before 128 KiB of four ways: a working set that overflows the first already overflows sets of the second."""

AT_RANDOM = 2 * np.log(2)
"""Times a cache that replaces at random that a working set has where half the loads of a chase miss: of n lines one is
still there, after so many misses per line of the cache, with a probability of exp(-n / 2)."""


def found(**changes: Any) -> Levels:
    with closing(quiet(**changes)) as machine:
        return find_levels(Context(machine=machine, seed=1, fast=True))


@pytest.mark.parametrize(
    ("changes", "kib"),
    [
        ({}, (32, 512, 2048)),
        ({"clock": COARSE}, (32, 512, 2048)),
        (TIGHT, (40, 128, 2048)),
        ({"clock": COARSE, **TIGHT}, (40, 128, 2048)),
        ({"l1": {"replacement": "random"}}, (AT_RANDOM * 32, 512, 2048)),
    ],
)
def test_all_levels_are_found_and_end_where_they_are_full(changes: dict[str, Any], kib: tuple[float, ...]) -> None:
    levels = found(**changes)
    assert levels.cycles == pytest.approx({"l1": L1, "l2": L2, "l3": L3, "memory": MEMORY}, rel=0.1, abs=1.0)
    assert list(levels.ends_bytes) == ["l1", "l2", "l3"]
    ratios = [end / (size * 1024) for end, size in zip(levels.ends_bytes.values(), kib, strict=True)]
    assert all(2**-0.5 <= ratio <= 2**0.5 for ratio in ratios), ratios  # sizes are half an octave apart


def test_no_third_level_is_made_up_where_there_is_none() -> None:
    assert list(found(clock=COARSE, l3=None).cycles) == ["l1", "l2", "memory"]
