"""Measure the cycles per load of cyclic pointer chases, which show whether caches and TLBs hold the chased lines.

After a few rounds, each load costs the latency of one level as long as no set of that cache, or of the TLB, gets more
lines (or translations) than it has ways; as soon as one set is oversubscribed, the mean cost rises.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setebench.experiments.calibrate import reference
from setebench.experiments.lines.layout import TLB_PAGE_BYTES
from setebench.experiments.paired import run_paired
from setebench.machine import Region
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.stats.pairs import located

Lines = NDArray[np.int64]

LINE, NEXT, OTHERS = Base("line"), Base("next"), Base("others")

ALWAYS = ((0, 1), (1, 0))
"""Which two of a page's four lines are timed, the first one with a TLB miss, in successive samples."""

TURNS = ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2), (1, 0), (3, 2), (2, 0), (3, 1), (3, 0), (2, 1))
"""The same, where each line is behind another first line than the last time, and at another distance on each page. So a
prefetcher that remembers which lines of a page followed brings none."""


@dataclass(frozen=True, kw_only=True)
class ChaseParams:
    """Tunables of a timed chase."""

    steps: int = 512  # loads of one timed chase: the bracket's bias is 0.01 cycles a load, and few meet an interrupt
    samples: int = 24  # paired samples of a chase in a round
    settle: int = 4  # traversals of all lines before timing, after which even random replacement has evicted others
    turns: tuple[tuple[int, int], ...] = ALWAYS  # lines of a page that are timed, if translation is; see `TURNS`
    run_pages: int = 16  # one of so many aligned pages is used, as neighbouring pages may share a TLB entry


class Pool:
    """Small pages, no two of them neighbours, that spread evenly over the sets of any TLB whose number of sets is a
    power of two. They are first touched in random order, so that they lie in random physical frames."""

    def __init__(self, context: Context, pages: int, params: ChaseParams | None = None) -> None:
        """Allocate and touch `pages` pages, or fewer if memory is short; `close` frees them."""
        self.context, self.params = context, params or ChaseParams()
        machine, run = context.machine, self.params.run_pages
        most = machine.facts.memory_bytes // (2 * run * TLB_PAGE_BYTES)
        number = np.arange(min(pages, most), dtype=np.int64)
        self.region = context.allocate(
            len(number) * run * TLB_PAGE_BYTES, min(machine.facts.page_sizes), populate=False
        )
        self.pages: Lines = self.region.address + (number * run + (5 * number + number // run) % run) * TLB_PAGE_BYTES
        self.rng = context.fresh_rng()
        machine.link(self.region, self.rng.permutation(self.pages))
        context.placed(self.region)

    def close(self) -> None:
        """Free the pool's memory."""
        self.context.machine.release(self.region)


def chase_cycles(context: Context, region: Region, lines: Lines, params: ChaseParams | None = None) -> float:
    """Return the core cycles of a load in a settled cyclic chase over `lines` (addresses in `region`, shape (n,), in
    this order); NaN if too few samples are undisturbed. Two successive chases are subtracted, the second with twice the
    steps: lines that the bracket's own data evict from full sets cost the same in both, and cancel out."""
    params, warmup = params or ChaseParams(), 2
    context.machine.link(region, lines)
    context.machine.run(Probe().chase(LINE, len(lines) * params.settle), {LINE: lines[:1]}, cpu=context.cpu)
    begins = np.arange(params.samples + warmup) * 3 * params.steps
    probe = Probe().paired(
        reference(context).work, Probe().chase(LINE, params.steps), Probe().chase(NEXT, 2 * params.steps)
    )
    where = {LINE: lines[begins % len(lines)], NEXT: lines[(begins + params.steps) % len(lines)]}
    paired = run_paired(context, probe, where, accesses=2 * params.steps, warmup=warmup)
    return (located(paired, 1) - located(paired, 0)) / params.steps


def translation_cycles(
    context: Context, region: Region, others: Lines, targets: Lines, params: ChaseParams | None = None
) -> float:
    """Return the cost of a TLB miss in core cycles a load: the time of loads of `targets` (addresses in `region`, shape
    (n,), each on its own page) after a chase through `others` (addresses that evict translations), minus the time of
    loads of other lines of the same pages right afterwards, which come from the same level but hit the TLB."""
    params, warmup = params or ChaseParams(), 2
    away = context.fresh_rng().permuted(
        np.tile(np.arange(2, TLB_PAGE_BYTES // region.line_size, 2), (len(targets), 1)), axis=1
    )
    several = [targets, *(targets ^ away[:, :3].T * region.line_size)]
    for lines in (others, *several):
        context.machine.link(region, lines)
    count, chase = len(targets), Probe().chase(OTHERS, len(others))
    probe = chase.paired(reference(context).work, Probe().chase(LINE, count), Probe().chase(NEXT, count))
    turns = np.resize(params.turns, (params.samples + warmup, 2))
    begins = np.array([lines[0] for lines in several])[turns]
    where = {LINE: begins[:, 0], NEXT: begins[:, 1], OTHERS: np.repeat(others[:1], len(turns))}
    paired = run_paired(context, probe, where, accesses=count, warmup=warmup)
    return (located(paired, 0) - located(paired, 1)) / count
