"""Every experiment of the hierarchy stays within its memory, whatever lines, pages and sizes there are."""

from __future__ import annotations

import numpy as np
import pytest
from bounded_machine import bounded
from setebench.scenarios.hierarchy.cores.transfers import Question, Transfers, private_walk, smt_latency
from setebench.scenarios.hierarchy.eviction_sets import measure_eviction
from setebench.scenarios.hierarchy.faults import FirstTouches
from setebench.scenarios.hierarchy.first_cache import Params, measure_strides
from setebench.scenarios.hierarchy.line_size import line_size
from setebench.scenarios.hierarchy.tlbs import PARAMS as TLBS

from setebench.errors import ProbeError
from setebench.experiments.chases import Pool
from setebench.experiments.conflicts import Congruent, sequence_excess
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.experiments.size_sweep import SizeSweepParams, WorkingSet
from setebench.experiments.translations import PageUnits, Survival, SurvivalParams
from setebench.experiments.traversals import lines_in_use

SMALL, LARGE = 4096, 2 << 20
MEMORY = (8 << 20) + 3 * SMALL
"""The least that a run is given, and no whole number of anything but small pages."""

lines_of = pytest.mark.parametrize("line", [32, 64, 128])


@lines_of
@pytest.mark.parametrize(
    ("page_bytes", "together", "memory"),
    [(SMALL, 1, MEMORY), (SMALL, 2, MEMORY), (SMALL, 8, 24 << 20), (LARGE, 1, 200 * LARGE)],
)
def test_translations(line: int, page_bytes: int, together: int, memory: int) -> None:
    """Few other pages and all that there are; more are refused, and not asked for beyond memory's end."""
    context = bounded(line)
    units = PageUnits(region=context.machine.allocate(memory, page_bytes), page_bytes=page_bytes, pages=together)
    survival = Survival(context, units, SurvivalParams())
    for others in (1, 20, survival.most // 2, survival.most):
        survival.stream(others, 2)
        survival.stores(others, 2, after_stores=True)
        survival.stores(others, 2, after_stores=False)
        for distance in (1, 2, 4, TLBS.most_shared) if page_bytes == SMALL else ():
            survival.neighbours(distance, others, others // 2, 4)
    for pages in (2, survival.most_in_ring):
        survival.ring(pages)
    for pieces in (1, survival.most_pieces) if page_bytes == SMALL and survival.most_pieces > 0 else ():
        survival.upper(pieces, 300, 2)
    with pytest.raises(ProbeError, match="asked for in memory of"):
        survival.stores(survival.most + 1, 2, after_stores=False)


@lines_of
def test_sets(line: int) -> None:
    context = bounded(line)
    measure_strides(context, Params(least_stride=2048, most_stride=8192, most_lines=40))
    pool = Pool(context, 40)
    measure_eviction(context, pool)
    first = pool.pages[:12] + TLB_PAGE_BYTES - line
    sequence_excess(context, [Congruent(first)], [np.tile(np.arange(12), 2)], [12], 4)
    pool.close()


@lines_of
def test_traversals(line: int) -> None:
    """Lines in use beside a stream, and working sets up to the largest that fits."""
    context, rng = bounded(line), np.random.default_rng(1)
    region = context.machine.allocate(MEMORY, SMALL)
    pages = region.address + rng.permutation(region.size // SMALL) * SMALL
    lines_in_use(context, region, pages[:16] + line, pages[16:].reshape(-1, 1)[:40], 50)
    for size in (4096.0, 64 << 10, region.size / 8):
        swept = WorkingSet(context, region, size, SizeSweepParams())
        swept.go_round(context, 1)
        swept.flush(context)
        swept.time(context, SizeSweepParams())
    line_size(context, region)
    FirstTouches(context, SMALL).sample()


@lines_of
def test_lines_of_other_cores(line: int) -> None:
    context = bounded(line)
    region = context.machine.allocate(MEMORY, SMALL)
    transfers = Transfers(context, region, private_walk(context, region, 512, np.inf))
    for state in ("modified", "exclusive", "shared"):
        transfers.cycles(Question(0, 1, state))
    smt_latency(context, region, (0, 1))
