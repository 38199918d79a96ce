"""How slowly lines of a data set answer right behind a streaming pass over all of it: what serves the next pass.

Found by following pointers, and never taken from what the system says. The lines are those that were passed first, as
the next pass begins with them: of a data set somewhat larger than a cache that replaces the longest unused line, random
lines would still find most of it there, and a stream finds nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from setebench.experiments.lines.layout import by_windows, lay, span_bytes
from setebench.experiments.lines.placing import flushed
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import WIDTHS, widths_of
from setebench.experiments.streams.team import touch
from setebench.machine import Region, Ticks
from setebench.probe import Base, Probe
from setebench.scenario import Context


@dataclass(frozen=True, kw_only=True)
class Params:
    """What is chased, and what it says.

    Lines over `sampled_bytes` are followed (1,024 of them, whose mean is known to a few percent), or over
    `sampled_part` of a small data set, which lie in its first half; those of a large one lie in its `first_part`. A
    data set has outgrown all caches when its lines answer `outgrown` times as slowly as flushed ones. The search for
    one begins at `first_bytes`: last levels of less are no longer built. Flushed lines are followed `passes` times, and
    the least counts, as whatever disturbs only slows down."""

    sampled_bytes: int = 1 << 16
    sampled_part: float = 0.1
    first_part: float = 0.25
    outgrown: float = 0.85
    first_bytes: int = 1 << 20
    passes: int = 3


PARAMS = Params()
CHASED = Base("chased")


def outgrowing_bytes(context: Context, room: int, seconds: float) -> int:
    """The smallest power of two such that behind a pass over so many bytes random lines answer as slowly as flushed;
    0 where none up to `room` does, or none within the budget of `seconds`."""
    budget, memory_ticks, found = Budget(context.machine.facts, seconds), flushed_ticks(context), dict[str, float]()
    context.evidence["after_a_pass"] = {"ticks": found, "flushed_ticks": memory_ticks}

    def ask(size: int) -> float:
        context.progress(f"what answers behind a pass over {size >> 10} KiB")
        budget.spend(size)
        ticks = after_a_pass(context, size, 1)
        found[str(size)] = min(ticks, found.get(str(size), ticks))
        return ticks

    sizes = (PARAMS.first_bytes << octave for octave in range((room // PARAMS.first_bytes).bit_length()))
    return outgrowing(takewhile(lambda _: budget.left > 0, sizes), ask, memory_ticks)


def outgrowing(sizes: Iterable[int], ask: Callable[[int], float], memory_ticks: float) -> int:
    """The first data set whose lines answer as memory does behind a pass, 0 where none does. Asked twice: what disturbs
    a chase makes it slow, too."""
    slow = (all(ask(size) > PARAMS.outgrown * memory_ticks for _ in range(2)) and size for size in sizes)
    return next(filter(None, slow), 0)


def after_a_pass(context: Context, size: int, passes: int) -> float:
    """Ticks of a line of a data set of `size` bytes, in pages as streams have them, right behind a pass over it."""
    machine, base = context.machine, Base("swept")
    page, width = max(machine.facts.page_sizes), WIDTHS[widths_of(machine.facts)[0]]
    region = machine.allocate(size, page, populate=False)
    try:
        touch(context, region, context.cpu)
        sampled = min(PARAMS.sampled_bytes, int(PARAMS.sampled_part * size))
        first = max(span_bytes(sampled, machine.facts.line_size), int(PARAMS.first_part * size))
        lines = lay(Region(region.address, first, page, machine.facts.line_size), sampled, context.rng(5))
        order = by_windows(lines, context.rng(6))
        machine.link(region, order)
        before = Probe().stream(base, "load", size, width)
        return _chase_ticks(context, before, {base: region.address}, order, passes)
    finally:
        machine.release(region)


def flushed_ticks(context: Context) -> float:
    """Ticks of a random line that was flushed."""
    line, base = context.machine.facts.line_size, Base("flushed")
    region = context.machine.allocate(span_bytes(PARAMS.sampled_bytes, line), min(context.machine.facts.page_sizes))
    order = by_windows(lay(region, PARAMS.sampled_bytes, context.rng(5)), context.rng(6))
    try:
        context.machine.link(region, order)
        away = flushed(base, region.size, line)
        return _chase_ticks(context, away, {base: region.address}, order, PARAMS.passes)
    finally:
        context.machine.release(region)


def _chase_ticks(context: Context, before: Probe, places: Mapping[Base, int], order: Ticks, passes: int) -> float:
    """Ticks per line of a chase over linked lines, the least of a few, each time right behind what is done `before`."""
    probe = before.fence().start().chase(CHASED, len(order)).stop()
    placements = {base: np.full(passes, place) for base, place in {**places, CHASED: int(order[0])}.items()}
    return float(context.machine.run(probe, placements, cpu=context.cpu).min()) / len(order)
