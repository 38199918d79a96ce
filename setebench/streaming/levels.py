"""Which data sets lie in which level: found by following pointers, and never taken from what the system says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setebench.layout import Layout, by_windows, lay, span_bytes
from setebench.machine import Region
from setebench.placing import SETTLE_CYCLES
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.streaming.budget import Budget
from setebench.streaming.choice import WIDTHS, widths_of
from setebench.sweep import find_levels, working_memory

OUTGROWN_LATENCY = 0.85
"""A data set has outgrown the caches when its lines, after a pass, answer this slowly beside flushed ones: the caches
then hold a quarter of it, less where they replace the longest unused."""

OUTGROWING_SECONDS = 20.0
"""What finding such a data set may cost (`Budget`)."""

PASSES = 2
"""Each time lines are followed right behind a pass; the least counts."""

SAMPLED_BYTES = 1 << 16

LOW_SHARE, SURE_SHARE, ALMOST = 0.95, 0.1, 0.99
"""Data sets of a level reach from the one that lies well inside it (smaller ones may fit the level before), in the
last level up to this share of the one that outgrows it (half of which did not). Whole blocks make a data set a little
smaller than was asked for."""

SWEPT, CHASED = Base("swept"), Base("chased")


@dataclass(frozen=True)
class Levels:
    """Bytes of a data set well inside each level, nearest first (0 for memory), and of one that outgrows the last
    (0 where none was found)."""

    inside: dict[str, float]
    outgrown: int

    def sizes(self, name: str, threads: int) -> tuple[float, float]:
        """The smallest and the largest data set of each of so many threads that lies in a level."""
        if name == "memory":
            return (ALMOST * self.outgrown if self.outgrown else np.inf), np.inf
        caches = [level for level in self.inside if level != "memory"]
        place = caches.index(name)
        low = LOW_SHARE * self.inside[name] if place else 0.0
        if place + 1 < len(caches):
            return low, float((self.inside[name] * self.inside[caches[place + 1]]) ** 0.5)
        return low, max(SURE_SHARE * self.outgrown, self.inside[name]) / threads  # it may be shared by all of them


def levels_of(context: Context, room: int) -> Levels:
    """Levels of this machine; `room` is the memory that a data set may take at most."""
    context.progress("where the levels end")
    region = working_memory(context)
    try:
        inside = find_levels(context, region)
    finally:
        context.machine.release(region)
    return Levels(inside, _outgrown(context, inside, room))


def _outgrown(context: Context, inside: dict[str, float], most: int) -> int:
    """The first of doubling data sets, in bytes, of which the caches keep little when a stream has passed over it; 0
    if none up to `most`.

    What they keep is found by following pointers to random lines of it, whose latency is compared with that of lines
    that were flushed. So nothing that is said of the caches is believed, and the last level may have no clear end."""
    budget = Budget(context.machine.facts, OUTGROWING_SECONDS)
    width = WIDTHS[widths_of(context.machine.facts)[0]]
    size = max(16 * SAMPLED_BYTES, 1 << int(np.ceil(np.log2(2.0 * max(inside.values())))))
    while size <= most and budget.left > 0:
        context.progress(f"whether {size >> 20} MiB outgrow the last level")
        region = context.machine.allocate(size, min(context.machine.facts.page_sizes))
        try:
            passed, flushed = _after_a_pass(context, region, width), _after_flushes(context, region)
        finally:
            context.machine.release(region)
        budget.spend(PASSES * size / width)
        context.evidence.setdefault("kept_by_caches", {})[str(size)] = [passed, flushed]
        if passed > OUTGROWN_LATENCY * flushed:
            return size
        size *= 2
    return 0


def _after_a_pass(context: Context, region: Region, width: int) -> float:
    """Ticks of a random line of a region over all of which a stream has just passed."""
    sparse = lay(region, SAMPLED_BYTES, context.rng(5))
    return _chase_ticks(context, region, sparse, Probe().stream(SWEPT, "load", region.size, width))


def _after_flushes(context: Context, region: Region) -> float:
    """Ticks of a random line that was flushed."""
    dense = Region(region.address, span_bytes(SAMPLED_BYTES, region.line_size), region.page_size, region.line_size)
    away = Probe().repeat(dense.lines, Probe().flush(SWEPT), advance=dense.line_size).fence().wait(SETTLE_CYCLES)
    return _chase_ticks(context, region, lay(dense, SAMPLED_BYTES, context.rng(5)), away)


def _chase_ticks(context: Context, region: Region, layout: Layout, before: Probe) -> float:
    """Ticks per line of a chase over a layout's lines, the least of a few, each time right behind `before`."""
    order = by_windows(layout, context.rng(6))
    context.machine.link(region, order)
    probe = before.fence().start().chase(CHASED, len(order)).stop()
    placements = {SWEPT: np.full(PASSES, region.address), CHASED: np.repeat(order[:1], PASSES)}
    return float(context.machine.run(probe, placements, cpu=context.cpu).min()) / len(order)
