"""Cost of a minor page fault in cycles: the first touch of a page against a later one (Fang et al. 2014, Table II)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import cycles_per_tick, step_ticks
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats import decide
from setebench.stats.rounds import quantile_of_rounds
from setebench.stats.ticks.location import mean_ticks

PAGE = Base("page")
METHOD = "first store to a page against a later one"


# bytes of a page, and pages of a round: more small ones than a TLB has entries (4,096): both touches walk page tables
PAGES = {"4k": (4096, 40960), "2m": (2 << 20, 24)}


@dataclass(frozen=True, kw_only=True)
class Params:
    """How much memory is touched, and how the cost of a first touch is estimated."""

    memory: float = 0.25  # largest share of the machine's memory that is touched
    batches: int = 12  # parts that the touches of a round are split into: the median of their means counts
    unpopulated: float = 0.6  # of a first touch: a later one that takes longer than this share was a fault as well
    pace: float = 1e-3  # relative error of the conversion of ticks into cycles in a round
    quantile: float = 0.4  # of rounds: the system's other work (it compacts memory) makes some rounds longer
    bias: float = 0.1  # error of the fault's cost over that of a later touch: first touches may differ otherwise, too


PARAMS = Params()


class FaultRound(msgspec.Struct, frozen=True, kw_only=True):
    """One round: cycles that a first touch takes longer than a later one (the fault), and cycles of a later one."""

    cycles: float
    later: float


def first_touches(context: Context, pages: str, params: Params = PARAMS) -> FaultRound:
    """Time a store to every page of fresh memory, then a store to another line of every page, in the same order.

    Loads would not do, as a page that is only read may be the system's shared page of zeros. A store retires without
    its cache line but not without its translation, so the difference of the two is the page fault alone."""
    machine, (size, count) = context.machine, PAGES[pages]
    most = int(params.memory * machine.facts.memory_bytes) // size
    region = context.exact_pages(max(1, min(count, most)) * size, size, populate=False)
    try:
        pace, touched = [cycles_per_tick(context)], []
        for addresses in _addresses(context, region):
            ticks = machine.run(Probe().start().store(PAGE).stop(), {PAGE: addresses}, cpu=context.cpu).ravel()
            parts = np.array_split(ticks, min(params.batches, len(ticks)))
            touched.append(np.array([mean_ticks(part, step_ticks(context)) for part in parts]))
            pace.append(cycles_per_tick(context))
    finally:
        machine.release(region)
    (first, later), rate = touched, float(np.mean(pace))
    return FaultRound(cycles=float(np.median(first - later)) * rate, later=float(np.median(later)) * rate)


def _addresses(context: Context, region: Region) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the addresses of the first and of the later touches, shape (pages,) each, pages in a random order."""
    rng = context.fresh_rng()
    pages = region.address + rng.permutation(region.pages) * region.page_size
    lines = rng.integers(0, region.page_size // region.line_size // 2, region.pages) * region.line_size
    return pages + lines, pages + region.page_size // 2 + lines


def fault_finding(pages: str, rounds: Sequence[FaultRound], params: Params = PARAMS) -> Finding:
    """Return the cost of a first touch in cycles, from rounds in which the system gave pages of the size `pages`."""
    parameter = f"page_fault.minor.{pages}"
    given = [each for each in rounds if each.later <= params.unpopulated * (each.cycles + each.later)]
    if len(given) < 2:
        reason = "a later touch of the same page costs nearly as much; the system gives other pages"
        return decide.unresolved(parameter, "cycles", reason, METHOD)
    bias = float(np.median([params.bias * each.later + params.pace * each.cycles for each in given]))
    cost = quantile_of_rounds([each.cycles for each in given], params.quantile, (bias, bias))
    return decide.measured(
        parameter, cost._replace(low=max(cost.low, 0.0)), "cycles", f"{METHOD}, {len(given)} rounds", "page_faults"
    )
