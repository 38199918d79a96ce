"""Every experiment of the hierarchy stays within its memory, whatever lines, pages and sizes there are."""

from __future__ import annotations

import numpy as np
import pytest
from bounded_machine import bounded
from setebench.scenarios.hierarchy.cores import read_lines
from setebench.scenarios.hierarchy.eviction_sets import measure_eviction
from setebench.scenarios.hierarchy.faults import first_touches
from setebench.scenarios.hierarchy.first_cache import Params, measure_strides
from setebench.scenarios.hierarchy.tlbs import measure_tlbs, tlb_findings, tlb_pages

from setebench.calibration import Calibration, Levels, measured_line
from setebench.experiments.chases import Pool
from setebench.experiments.conflicts import Sets, load_cycles
from setebench.experiments.size_sweep import SizeSweepParams, WorkingSet
from setebench.stats.estimate import Interval

SMALL, LARGE = 4096, 2 << 20
MEMORY = (8 << 20) + 3 * SMALL
"""The least that a run is given, and no whole number of anything but small pages."""

lines_of = pytest.mark.parametrize("line", [32, 64, 128])


@lines_of
def test_translations(line: int) -> None:
    """All pages that memory of any size has; a machine that answers at random has no TLB."""
    context = bounded(line)
    one = measure_tlbs(tlb_pages(context))
    assert one.pages[-1] > 1000 and len(list(tlb_findings([one], [one]))) == 14


@lines_of
def test_sets(line: int) -> None:
    context = bounded(line)
    measure_strides(context, Params(least_stride=2048, most_stride=8192, most_lines=40))
    pool = Pool(context, 40)
    measure_eviction(context, pool)
    first = pool.pages[:12] + SMALL - line
    load_cycles(context, pool.region, Sets(first[None, :], 8), np.tile(np.arange(8), (4, 2)))
    pool.close()


@lines_of
def test_traversals(line: int) -> None:
    """Working sets up to the largest that fits, lines near flushed ones, and first touches."""
    context = bounded(line)
    region = context.allocate(MEMORY, SMALL)
    for size in (4096.0, 64 << 10, region.size / 8):
        swept = WorkingSet(context, region, size)
        swept.go_round(context, 1)
        swept.time(context, SizeSweepParams(samples=20, ring=64), True)
    measured_line(context.machine, None, context.rng(1))
    first_touches(context, "4k")


@lines_of
def test_lines_of_other_cores(line: int) -> None:
    context, second = bounded(line), 512.0 * line
    levels = Levels(cycles={"l1": 4.0, "l2": 14.0, "memory": 300.0}, capacity={"l2": Interval(second, second, second)})
    context.calibration = Calibration(levels=levels)
    assert {name.partition(".")[2] for name in read_lines(context)} == {"modified", "exclusive", "shared"}
