"""How slowly random lines of a data set answer right behind a streaming pass over all of it: what caches keep of it.

Found by following pointers, and never taken from what the system says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from setebench.experiments.lines.layout import by_windows, lay, span_bytes
from setebench.experiments.lines.placing import SETTLE_CYCLES
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import WIDTHS, widths_of
from setebench.machine import Region, Ticks
from setebench.probe import Base, Probe
from setebench.scenario import Context


@dataclass(frozen=True, kw_only=True)
class Params:
    """What is chased, and what it says.

    Lines over `sampled_bytes` are followed: 1,024 of them, whose mean is known to a few percent. A data set has
    outgrown all caches when its lines answer `outgrown` times as slowly as flushed ones. The search for one begins at
    `first_bytes`: last levels of less are no longer built. Flushed lines are followed `passes` times, and the least
    counts, as whatever disturbs only slows down."""

    sampled_bytes: int = 1 << 16
    outgrown: float = 0.85
    first_bytes: int = 1 << 20
    passes: int = 3


PARAMS = Params()
SWEPT, CHASED = Base("swept"), Base("chased")


def outgrowing_bytes(context: Context, room: int, seconds: float) -> int:
    """The smallest power of two such that behind a pass over so many bytes random lines answer as slowly as flushed;
    0 where none up to `room` does, or none within the budget of `seconds`."""
    budget = Budget(context.machine.facts, seconds)
    width = WIDTHS[widths_of(context.machine.facts)[0]]
    flushed, size = flushed_ticks(context), PARAMS.first_bytes
    found: dict[str, float] = {}
    context.evidence["after_a_pass"] = {"ticks": found, "flushed_ticks": flushed}
    while size <= room and budget.left > 0:
        context.progress(f"what answers behind a pass over {size >> 10} KiB")
        found[str(size)] = after_a_pass(context, size, width, 1)
        if found[str(size)] > PARAMS.outgrown * flushed:  # asked again: what disturbs a chase makes it slow, too
            found[str(size)] = min(found[str(size)], after_a_pass(context, size, width, 1))
        budget.spend((1 + 1) * size)
        if found[str(size)] > PARAMS.outgrown * flushed:
            return size
        size *= 2
    return 0


def after_a_pass(context: Context, size: int, width: int, passes: int) -> float:
    """Ticks of a random line of a data set, in pages as streams have them, right behind a pass over all of it."""
    machine = context.machine
    page = max(machine.facts.page_sizes)
    region = machine.allocate(size, page, populate=False)
    try:
        # stored to first: pages that were only read may all be one page of zeros
        machine.run(Probe().stream(SWEPT, "store", size, width).fence(), {SWEPT: [region.address]}, cpu=context.cpu)
        used = Region(region.address, size, page, region.line_size)
        order = by_windows(lay(used, min(PARAMS.sampled_bytes, size // 5), context.rng(5)), context.rng(6))
        machine.link(region, order)
        return _chase_ticks(context, region, order, Probe().stream(SWEPT, "load", size, width), passes)
    finally:
        machine.release(region)


def flushed_ticks(context: Context) -> float:
    """Ticks of a random line that was flushed."""
    line = context.machine.facts.line_size
    region = context.machine.allocate(span_bytes(PARAMS.sampled_bytes, line), min(context.machine.facts.page_sizes))
    away = Probe().repeat(region.size // line, Probe().flush(SWEPT), advance=line).fence().wait(SETTLE_CYCLES)
    order = by_windows(lay(region, PARAMS.sampled_bytes, context.rng(5)), context.rng(6))
    try:
        context.machine.link(region, order)
        return _chase_ticks(context, region, order, away, PARAMS.passes)
    finally:
        context.machine.release(region)


def _chase_ticks(context: Context, region: Region, order: Ticks, before: Probe, passes: int) -> float:
    """Ticks per line of a chase over linked lines, the least of a few, each time right behind `before`."""
    probe = before.fence().start().chase(CHASED, len(order)).stop()
    placements = {SWEPT: np.full(passes, region.address), CHASED: np.repeat(order[:1], passes)}
    return float(context.machine.run(probe, placements, cpu=context.cpu).min()) / len(order)
