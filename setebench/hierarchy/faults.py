"""What the first touch of a page costs: a minor page fault (Fang et al. 2014, Table II)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.infer.moments import LEAST_CALM, agreed, over_moments
from setebench.infer.ticks import Estimate, mean_ticks
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

BATCHES = {4096: 40, 2 << 20: 2}
"""A moment's cost is that of its calmer batches of pages: a sibling thread that comes or goes raises the others."""

CALMER_SHARE = 0.25
"""A quarter of the batches, at least, is undisturbed in an epoch that counts."""

MOMENTS, MOST_MOMENTS = 4, 10
"""Moments looked at, and how many at most where they don't agree."""

PAGE = Base("page")

UNPOPULATED_RATIO = 0.6
"""A second touch elsewhere in the page that costs more than this share of the first was a fault as well: the page is
not what was asked for."""


@dataclass(frozen=True)
class Fault:
    """Cycles of a first touch over a later one, or why there are none."""

    cycles: Estimate | None
    reason: str = ""


class FirstTouches:
    """First touches of pages of one size, looked at in several moments of a run."""

    def __init__(self, context: Context, page_bytes: int) -> None:
        """Nothing is measured yet."""
        self._context = context
        self._page_bytes = page_bytes
        self._cycles: list[float] = []
        self._later_share: list[float] = []

    def look(self) -> None:
        """Time a store to every page of fresh memory, then one to another line of every page, in the same order.

        A store, because a page that is only read may be the system's shared page of zeros. A store retires without its
        line, but not without its translation, so the difference holds the fault and nothing else."""
        machine, size = self._context.machine, self._page_bytes
        most = int(MEMORY_SHARE * machine.facts.memory_bytes) // size
        region = machine.allocate(max(1, min(PAGES[size], most)) * size, size, populate=False)
        try:
            first, later = (_touch(self._context, page, BATCHES[size]) for page in _touches(self._context, region))
        finally:
            machine.release(region)
        cost = float(np.quantile(first - later, CALMER_SHARE))
        self._cycles.append(cost * cycles_per_tick(self._context))
        self._later_share.append(float(later.mean() / first.mean()))

    def told(self) -> Fault:
        """What a first touch costs, after as many samples as it takes."""
        while len(self._cycles) < MOMENTS or (len(self._cycles) < MOST_MOMENTS and not agreed(self._given)):
            self.look()
        if len(self._given) < LEAST_CALM:
            return Fault(None, "a later touch of the same page costs nearly as much; the system gives other pages")
        return Fault(over_moments(self._given))

    @property
    def _given(self) -> list[float]:
        """Costs of those moments in which the system gave such pages: there may be no large ones left."""
        both = zip(self._cycles, self._later_share, strict=True)
        return [cost for cost, share in both if share <= UNPOPULATED_RATIO and cost > 0]


def _touches(context: Context, region: Region) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Addresses of the first and the later touches, the pages in a random order."""
    rng = context.rng(41)
    pages = region.address + rng.permutation(region.pages) * region.page_size
    lines = rng.integers(0, region.page_size // region.line_size // 2, region.pages) * region.line_size
    return pages + lines, pages + region.page_size // 2 + lines


def _touch(context: Context, addresses: NDArray[np.int64], batches: int) -> NDArray[np.float64]:
    """Mean ticks of a store to each address, shape (batches,) or fewer, without those that a stall hit."""
    probe = Probe().start().store(PAGE).stop()
    ticks: Ticks = context.machine.run(probe, {PAGE: addresses}, cpu=context.cpu).ravel()
    parts = np.array_split(ticks, min(batches, len(ticks)))
    return np.array([mean_ticks(part, step_ticks(context)) for part in parts])
