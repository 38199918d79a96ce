"""What the first touch of a page costs: a minor page fault (Fang et al. 2014, Table II)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import cycles_per_tick, step_ticks
from setebench.machine import Region, Ticks
from setebench.probe import Base, Probe
from setebench.results import Finding
from setebench.scenario import Context
from setebench.stats import decide
from setebench.stats.estimate import Estimate
from setebench.stats.nodes import robust
from setebench.stats.ticks.location import mean_ticks

PAGE = Base("page")


@dataclass(frozen=True, kw_only=True)
class Params:
    """Touched are `pages` by their bytes, at most `memory` of the machine's. Of small ones more than any TLB holds (the
    largest known has 4,096 entries, that of a simulated machine 32,768), so that the second touch pays the same page
    walk: one that hits makes a fault look dearer by a walk. An epoch's cost is the median of so many `batches` of them:
    a stall falls into few. `epochs` count at least, and up to `most_epochs` are looked at until half the interval is
    `steady` of the cost. A second touch elsewhere in the page that costs more than `unpopulated` of the first was a
    fault as well: the page is not what was asked for."""

    pages: Mapping[int, int] = field(default_factory=lambda: {4096: 40960, 2 << 20: 24})
    memory: float = 0.25
    batches: Mapping[int, int] = field(default_factory=lambda: {4096: 40, 2 << 20: 12})
    epochs: int = 4
    most_epochs: int = 10
    steady: float = 0.1
    unpopulated: float = 0.6


PARAMS = Params()


class Fault(NamedTuple):
    """Cycles of a first touch over a later one, None where the system gives other pages; how many epochs counted."""

    cycles: Estimate | None
    counted: int


@dataclass(frozen=True)
class Epoch:
    """Cycles of a first touch over a later one, and how much of the first the later one costs."""

    cycles: float
    later_fraction: float


class FirstTouches:
    """First touches of pages of one size, in several epochs of a run."""

    def __init__(self, context: Context, page_bytes: int) -> None:
        """Nothing is measured yet."""
        self._context = context
        self._page_bytes = page_bytes
        self._epochs: list[Epoch] = []

    def sample(self) -> None:
        """Time a store to every page of fresh memory, then one to another line of every page, in the same order.

        A store, because a page that is only read may be the system's shared page of zeros. A store retires without its
        line, but not without its translation, so the difference holds the fault and nothing else."""
        machine, size = self._context.machine, self._page_bytes
        most = int(PARAMS.memory * machine.facts.memory_bytes) // size
        region = machine.allocate(max(1, min(PARAMS.pages[size], most)) * size, size, populate=False)
        try:
            first, later = (
                _touch(self._context, page, PARAMS.batches[size]) for page in _touches(self._context, region)
            )
        finally:
            machine.release(region)
        cost = float(np.median(first - later)) * cycles_per_tick(self._context)
        self._epochs.append(Epoch(cost, float(later.mean() / first.mean())))

    def cost(self) -> Fault:
        """What a first touch costs, after as many samples as it takes."""
        while len(self._epochs) < PARAMS.epochs or (len(self._epochs) < PARAMS.most_epochs and not self._settled):
            self.sample()
        found = infer_fault(self._epochs)
        self._context.evidence.setdefault("page_faults", {})[str(self._page_bytes)] = {
            "cycles": [round(each.cycles, 1) for each in self._epochs],
            "counted": found.counted,
        }
        return found

    @property
    def _settled(self) -> bool:
        found = infer_fault(self._epochs).cycles
        return found is not None and found.half_width <= PARAMS.steady * found.value


def infer_fault(epochs: Sequence[Epoch]) -> Fault:
    """The centre of the epochs in which the system gave such pages (there may be no large ones left). What the system
    does meanwhile for others (it compacts memory for large pages), and a co-runner, make some of them dear: those far
    off have no weight, and are counted in the error."""
    given = [each for each in epochs if each.later_fraction <= PARAMS.unpopulated and each.cycles > 0]
    if len(given) < 2:
        return Fault(None, len(given))
    found = robust.spread(np.array([each.cycles for each in given]))
    cycles = Estimate(value=found.centre, error=found.spread / found.count**0.5, degrees=found.degrees)
    return Fault(cycles, len(given))


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


def fault_finding(pages: str, fault: Fault) -> Finding:
    """Cost of a first touch."""
    parameter, method = f"page_fault.minor.{pages}", "first store to a page against a later one"
    if fault.cycles is None:
        reason = "a later touch of the same page costs nearly as much; the system gives other pages"
        return decide.unresolved(parameter, "cycles", reason, method)
    if fault.cycles.half_width > PARAMS.steady * fault.cycles.value:
        reason = "first touches differ too much; run again at a quieter time"
        return decide.unresolved(parameter, "cycles", reason, method)
    return decide.measured(parameter, fault.cycles, "cycles", f"{method}, {fault.counted} epochs", "page_faults")
