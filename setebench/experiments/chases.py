"""Cyclic pointer chases over chosen lines of a pool of pages, in paired samples.

Once it has settled, a cyclic chase costs one level's latency a load as long as every set of a cache or TLB holds the
lines and translations that it got; from the first oversubscribed set on it costs more.
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


@dataclass(frozen=True, kw_only=True)
class ChaseParams:
    """How a chase is timed."""

    steps: int = 512  # loads of one timed chase: the bracket's bias is 0.01 cycles a load, and few meet an interrupt
    samples: int = 24  # paired samples of a chase in a round
    settle: int = 4  # rounds over all lines before: what a random replacement kept from before is gone then
    run_pages: int = (
        16  # of so many aligned pages one is used: neighbours may share a TLB entry or be neighbours in memory
    )


class Pool:
    """Pages of small size, no two of which are neighbours, that were touched in random order: so they lie in random
    frames, and every power of two of sets is used evenly by their numbers."""

    def __init__(self, context: Context, pages: int, params: ChaseParams | None = None) -> None:
        """Allocate and touch the pool, with fewer pages where memory is short. `close` gives it back."""
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

    def close(self) -> None:
        """Give the memory back."""
        self.context.machine.release(self.region)


def chase_cycles(context: Context, region: Region, lines: Lines, params: ChaseParams | None = None) -> float:
    """Core cycles that a load takes of a chase round and round these lines of `region`, shape (n,), in this order, once
    it has settled; NaN where too few samples were undisturbed. It is the difference of a chase and the one of twice the
    steps that goes on from there: where a bracket's own data push something out of a full set, all of that is lost
    once, in both."""
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
    """Core cycles that loads of the lines `targets`, each on a page of its own, take longer behind a chase through
    `others` than loads of other lines of the same pages right afterwards: these are as far away, but are translated."""
    params, warmup = params or ChaseParams(), 2
    again = targets ^ TLB_PAGE_BYTES // 2
    for lines in (others, targets, again):
        context.machine.link(region, lines)
    count, chase = len(targets), Probe().chase(OTHERS, len(others))
    probe = chase.paired(reference(context).work, Probe().chase(LINE, count), Probe().chase(NEXT, count))
    # in turn: where a cache keeps some of the lines, it keeps as many of those timed first as of those timed again
    turn = np.arange(params.samples + warmup) % 2
    first = np.where(turn, targets[0], again[0])
    where = {LINE: first, NEXT: targets[0] + again[0] - first, OTHERS: others[0]}
    paired = run_paired(context, probe, where, accesses=count, warmup=warmup)
    return (located(paired, 0) - located(paired, 1)) / count
