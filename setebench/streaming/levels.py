"""Which data sets lie in which level: found by following pointers, and never taken from what the system says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from setebench.infer.levels import rising
from setebench.machine import Region, Ticks
from setebench.measure.calibrate import quick_cycles_per_tick
from setebench.measure.layout import by_windows, lay, span_bytes
from setebench.measure.placing import SETTLE_CYCLES
from setebench.measure.sweep import find_levels, working_memory
from setebench.probe import Base, Probe
from setebench.scenario import Context
from setebench.streaming.budget import Budget
from setebench.streaming.choice import WIDTHS, widths_of

SMALLEST_BYTES = 4096

LEFT_SHARE = 0.25
"""A data set lies in a level when its lines, after a pass over all of it, come from nearer levels to no more than this.
A cache that replaces the longest unused line then serves nothing of a stream, and one that replaces at random 2 %:
either keeps a quarter of four times its size."""

SAME_LATENCY = 1.4
"""And when they answer hardly slower than that level: lines from further levels take so much longer that few of them
would take most of a stream's time. A TLB miss for every 15 lines, and neighbours on a shared cache, take as much."""

OUTGROWN_LATENCY = 0.85
"""It has outgrown all caches when its lines answer this slowly beside flushed ones."""

ALMOST = 0.99
"""Whole blocks make a data set a little smaller than was asked for."""

FINE_BYTES = 8 << 20
"""Data sets are half octaves apart up to here, then octaves: passing over large ones takes time."""

OUTGROWING_SECONDS = 20.0
"""What all of it may cost (`Budget`)."""

PASSES, LARGE_PASSES = 3, 1
"""Each time lines are followed right behind a pass; the least counts. Fewer beyond `FINE_BYTES`."""

SAMPLED_BYTES = 1 << 16

FIRST_OUTGROWING_BYTES = 1 << 20
"""Where the search for a data set that outgrows the caches begins: last levels of less are no longer built."""

SWEPT, CHASED = Base("swept"), Base("chased")


@dataclass(frozen=True)
class Levels:
    """The smallest and the largest data set, in bytes, that were seen to lie in each cache, nearest first (None for a
    level that none lies in), and one that outgrows the last (0 where none was found)."""

    caches: Mapping[str, tuple[float, float] | None]
    outgrown: int

    @property
    def names(self) -> tuple[str, ...]:
        """All levels, memory last."""
        return (*self.caches, "memory")

    def sizes(self, name: str, threads: int, per_core: int = 1) -> tuple[float, float]:
        """The smallest and the largest data set of each of so many threads, so many of them on a core, that lies in a
        level; the largest is less than the smallest where there is none. The last level may be shared by all threads,
        the others by those of a core."""
        if name == "memory":
            return (float(self.outgrown) if self.outgrown else np.inf), np.inf
        low, high = self.caches[name] or (np.inf, 0.0)
        last = len(self.caches) > 1 and name == self.names[-2]
        return low, high / (threads if last else per_core)

    def in_a_cache(self, size: int, threads: int, per_core: int = 1) -> bool:
        """Whether data sets of this size of each of so many threads lie in any cache."""
        ranges = (self.sizes(name, threads, per_core) for name in self.caches)
        return any(ALMOST * low <= size <= high for low, high in ranges)

    def middles(self, threads: int, per_core: int = 1) -> list[int]:
        """Two data sets inside each cache that has room for them: that they agree shows that both fit."""
        found = []
        for name in self.caches:
            low, high = self.sizes(name, threads, per_core)
            low = max(low, high / 16)
            if low <= high:
                found += [int(low * (high / low) ** share) for share in (1 / 3, 2 / 3)]
        return found


def levels_of(context: Context, room: int) -> Levels:
    """Levels of this machine; `room` is the memory that a data set may take at most."""
    context.progress("where the levels end")
    region = working_memory(context)
    try:
        names = list(find_levels(context, region))
    finally:
        context.machine.release(region)
    per_tick = quick_cycles_per_tick(context)
    ticks = [context.calibration.level_cycles[name] / per_tick for name in names]
    flushed = _flushed_ticks(context)
    passed = _passed_ticks(context, room, flushed)
    context.evidence["after_a_pass"] = {
        "ticks": {str(size): each for size, each in passed.items()},
        "flushed_ticks": flushed,
        "level_ticks": dict(zip(names, ticks, strict=True)),
    }
    return ranges(names, ticks, passed, flushed)


def outgrowing_bytes(context: Context, room: int, seconds: float) -> int:
    """The smallest power of two such that behind a pass over so many bytes random lines answer as slowly as flushed;
    0 where none up to `room` does, or none within the budget of `seconds`."""
    budget = Budget(context.machine.facts, seconds)
    width = WIDTHS[widths_of(context.machine.facts)[0]]
    flushed, size = _flushed_ticks(context), FIRST_OUTGROWING_BYTES
    found: dict[str, float] = {}
    context.evidence["after_a_pass"] = {"ticks": found, "flushed_ticks": flushed}
    while size <= room and budget.left > 0:
        context.progress(f"what answers behind a pass over {size >> 10} KiB")
        found[str(size)] = _after_a_pass(context, size, width, LARGE_PASSES)
        if found[str(size)] > OUTGROWN_LATENCY * flushed:  # asked again: what disturbs a chase makes it slow, too
            found[str(size)] = min(found[str(size)], _after_a_pass(context, size, width, LARGE_PASSES))
        budget.spend((1 + LARGE_PASSES) * size)
        if found[str(size)] > OUTGROWN_LATENCY * flushed:
            return size
        size *= 2
    return 0


def ranges(names: list[str], ticks: list[float], passed: Mapping[int, float], flushed: float) -> Levels:
    """Data sets of every level, from its latency (`names` and `ticks`, memory last) and that of lines of growing data
    sets (`passed`, by bytes) after a pass."""
    sizes = sorted(passed)
    steps = rising(np.array([passed[size] for size in sizes]))  # whatever disturbs a chase only slows it down
    caches: dict[str, tuple[float, float] | None] = {}
    for number, name in enumerate(names[:-1]):
        if number:
            fastest = _between(ticks[number - 1], ticks[number], 1 - LEFT_SHARE)
            slowest = min(SAME_LATENCY * ticks[number], _between(ticks[number], ticks[number + 1], LEFT_SHARE))
        else:  # of which the smallest data sets lie there for sure
            fastest, slowest = 0.0, _between(ticks[0], ticks[1], LEFT_SHARE)
        own = [size for size, each in zip(sizes, steps, strict=True) if fastest <= each <= slowest]
        if ticks[number] > OUTGROWN_LATENCY * flushed:
            own = []  # no cache, but memory that was disturbed when levels were looked for
        # a level without any may not be one, and then those behind have other numbers
        if not own or None in caches.values():
            caches[name] = None
        else:
            caches[name] = (float(own[0]) if number else 0.0, float(own[-1]))
    outgrown = [size for size, each in zip(sizes, steps, strict=True) if each > OUTGROWN_LATENCY * flushed]
    return Levels(caches, outgrown[0] if outgrown else 0)


def _between(near: float, far: float, share: float) -> float:
    return near + share * (far - near)


def _sizes(most: int) -> Iterator[int]:
    size = float(SMALLEST_BYTES)
    while size <= most:
        yield int(size) // SMALLEST_BYTES * SMALLEST_BYTES
        size *= 2**0.5 if size < FINE_BYTES else 2.0


def _passed_ticks(context: Context, most: int, flushed: float) -> dict[int, float]:
    """Ticks of a random line of data sets of growing size over all of which a stream has just passed, by bytes, until
    they answer as slowly as flushed ones."""
    budget = Budget(context.machine.facts, OUTGROWING_SECONDS)
    width = WIDTHS[widths_of(context.machine.facts)[0]]
    found: dict[int, float] = {}
    for size in _sizes(most):
        if budget.left <= 0:
            break
        context.progress(f"what answers behind a pass over {size >> 10} KiB")
        passes = PASSES if size <= FINE_BYTES else LARGE_PASSES
        found[size] = _after_a_pass(context, size, width, passes)
        budget.spend((1 + passes) * size)
        if found[size] > OUTGROWN_LATENCY * flushed:
            break
    return found


def _after_a_pass(context: Context, size: int, width: int, passes: int) -> float:
    """Ticks of a random line of a data set, in pages as streams have them, right behind a pass over all of it."""
    machine = context.machine
    page = max(machine.facts.page_sizes)
    region = machine.allocate(size, page, populate=False)
    try:
        # stored to first: pages that were only read may all be one page of zeros
        machine.run(Probe().stream(SWEPT, "store", size, width).fence(), {SWEPT: [region.address]}, cpu=context.cpu)
        used = Region(region.address, size, page, region.line_size)
        order = by_windows(lay(used, min(SAMPLED_BYTES, size // 5), context.rng(5)), context.rng(6))
        machine.link(region, order)
        return _chase_ticks(context, region, order, Probe().stream(SWEPT, "load", size, width), passes)
    finally:
        machine.release(region)


def _flushed_ticks(context: Context) -> float:
    """Ticks of a random line that was flushed."""
    line = context.machine.facts.line_size
    region = context.machine.allocate(span_bytes(SAMPLED_BYTES, line), min(context.machine.facts.page_sizes))
    away = Probe().repeat(region.size // line, Probe().flush(SWEPT), advance=line).fence().wait(SETTLE_CYCLES)
    order = by_windows(lay(region, SAMPLED_BYTES, context.rng(5)), context.rng(6))
    try:
        context.machine.link(region, order)
        return _chase_ticks(context, region, order, away, PASSES)
    finally:
        context.machine.release(region)


def _chase_ticks(context: Context, region: Region, order: Ticks, before: Probe, passes: int) -> float:
    """Ticks per line of a chase over linked lines, the least of a few, each time right behind `before`."""
    probe = before.fence().start().chase(CHASED, len(order)).stop()
    placements = {SWEPT: np.full(passes, region.address), CHASED: np.repeat(order[:1], passes)}
    return float(context.machine.run(probe, placements, cpu=context.cpu).min()) / len(order)
