"""What the first touch of a page costs: a minor page fault (Fang et al. 2014, Table II)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.infer.ticks import Estimate, over_rounds, undisturbed
from setebench.machine import Region, Ticks
from setebench.measure.calibrate import step_ticks
from setebench.measure.rings import cycles_per_tick
from setebench.probe import Base, Probe
from setebench.scenario import Context

PAGES = {4096: 40960, 2 << 20: 24}
"""Pages touched by size. Of small ones more than any TLB holds (the largest known has 4,096 entries, that of a
simulated machine 32,768), so that the second touch pays the same page walk: one that hits makes a fault look dearer by
a walk."""

MEMORY_SHARE = 0.25
"""Of the machine's memory, so much is touched at most."""

BATCHES = 12
PAGE = Base("page")

UNPOPULATED_RATIO = 0.6
"""A second touch elsewhere in the page that costs more than this share of the first was a fault as well: the page is
not what was asked for."""


@dataclass(frozen=True)
class Fault:
    """Cycles of a first touch over a later one, or why there are none."""

    cycles: Estimate | None
    reason: str = ""


def page_fault(context: Context, page_bytes: int) -> Fault:
    """Time a store to every page of fresh memory, then one to another line of every page, in the same order.

    A store, because a page that is only read may be the system's shared page of zeros. A store retires without its
    line, but not without its translation, so the difference holds the fault and nothing else."""
    most = int(MEMORY_SHARE * context.machine.facts.memory_bytes) // page_bytes
    region = context.machine.allocate(max(1, min(PAGES[page_bytes], most)) * page_bytes, page_bytes, populate=False)
    try:
        first, later = (_touch(context, page) for page in _touches(context, region))
    finally:
        context.machine.release(region)
    difference = first - later.mean() if len(first) != len(later) else first - later
    if later.mean() > UNPOPULATED_RATIO * first.mean():
        return Fault(None, "a later touch of the same page costs nearly as much; the system gives other pages")
    per_tick = cycles_per_tick(context)
    return Fault(over_rounds(difference * per_tick, 0.01))


def _touches(context: Context, region: Region) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Addresses of the first and the later touches, the pages in a random order."""
    rng = context.rng(41)
    pages = region.address + rng.permutation(region.pages) * region.page_size
    lines = rng.integers(0, region.page_size // region.line_size // 2, region.pages) * region.line_size
    return pages + lines, pages + region.page_size // 2 + lines


def _touch(context: Context, addresses: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean ticks of a store to each address, in batches, without those that a stall hit."""
    probe = Probe().start().store(PAGE).stop()
    ticks: Ticks = context.machine.run(probe, {PAGE: addresses}, cpu=context.cpu).ravel()
    kept = undisturbed(ticks, step_ticks(context))
    batches = zip(np.array_split(ticks, BATCHES), np.array_split(kept, BATCHES), strict=True)
    means: list[float] = [float(batch[own].mean()) for batch, own in batches if own.any()]
    return np.array(means)
