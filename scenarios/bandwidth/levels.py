"""Which data sets lie in which level: found by following pointers, and never taken from what the system says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from setebench.calibration import MEMORY, Kind, kind_of
from setebench.experiments.calibrate import quick_cycles_per_tick
from setebench.experiments.levels import find_walks, working_memory
from setebench.experiments.streams.after_a_pass import PARAMS as AFTER
from setebench.experiments.streams.after_a_pass import after_a_pass, flushed_ticks
from setebench.experiments.streams.budget import Budget
from setebench.experiments.streams.choice import WIDTHS, widths_of
from setebench.scenario import Context
from setebench.stats.plateaus import rising

from .params import PARAMS


@dataclass(frozen=True)
class Levels:
    """The smallest and the largest data set, in bytes, that were seen to lie in each cache, nearest first (None for a
    level that none lies in), and one that outgrows the last (0 where none was found)."""

    caches: Mapping[str, tuple[float, float] | None]
    outgrown: int

    @property
    def names(self) -> tuple[str, ...]:
        """All levels, memory last."""
        return (*self.caches, MEMORY)

    def shared(self, name: str) -> bool:
        """Whether other cores may use a level as well."""
        return kind_of(name, list(self.caches)) is not Kind.PRIVATE

    def sizes(self, name: str, threads: int, per_core: int = 1) -> tuple[float, float]:
        """The smallest and the largest data set of each of so many threads, so many of them on a core, that lies in a
        level; the largest is less than the smallest where there is none. Levels that may be shared are by all threads,
        the others by those of a core."""
        if name == MEMORY:
            return (float(self.outgrown) if self.outgrown else np.inf), np.inf
        low, high = self.caches[name] or (np.inf, 0.0)
        return low, high / (threads if self.shared(name) else per_core)

    def in_a_cache(self, size: int, threads: int, per_core: int = 1) -> bool:
        """Whether data sets of this size of each of so many threads lie in any cache."""
        ranges = (self.sizes(name, threads, per_core) for name in self.caches)
        return any(PARAMS.almost * low <= size <= high for low, high in ranges)

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
        names = list(find_walks(context, region))
    finally:
        context.machine.release(region)
    per_tick = quick_cycles_per_tick(context)
    ticks = [context.calibration.level_cycles[name] / per_tick for name in names]
    flushed = flushed_ticks(context)
    passed = _passed_ticks(context, room, flushed)
    context.evidence["after_a_pass"] = {
        "ticks": {str(size): each for size, each in passed.items()},
        "flushed_ticks": flushed,
        "level_ticks": dict(zip(names, ticks, strict=True)),
    }
    return ranges(names, ticks, passed, flushed)


def ranges(names: list[str], ticks: list[float], passed: Mapping[int, float], flushed: float) -> Levels:
    """Data sets of every level, from its latency (`names` and `ticks`, memory last) and that of lines of growing data
    sets (`passed`, by bytes) after a pass."""
    sizes = sorted(passed)
    steps = rising(np.array([passed[size] for size in sizes]))  # whatever disturbs a chase only slows it down
    caches: dict[str, tuple[float, float] | None] = {}
    for number, name in enumerate(names[:-1]):
        if number:
            fastest = _between(ticks[number - 1], ticks[number], 1 - PARAMS.left)
            slowest = min(PARAMS.same_latency * ticks[number], _between(ticks[number], ticks[number + 1], PARAMS.left))
        else:  # of which the smallest data sets lie there for sure
            fastest, slowest = 0.0, _between(ticks[0], ticks[1], PARAMS.left)
        own = [size for size, each in zip(sizes, steps, strict=True) if fastest <= each <= slowest]
        if ticks[number] > AFTER.outgrown * flushed:
            own = []  # no cache, but memory that was disturbed when levels were looked for
        # a level without any may not be one, and then those behind have other numbers
        if not own or None in caches.values():
            caches[name] = None
        else:
            caches[name] = (float(own[0]) if number else 0.0, float(own[-1]))
    outgrown = [size for size, each in zip(sizes, steps, strict=True) if each > AFTER.outgrown * flushed]
    return Levels(caches, outgrown[0] if outgrown else 0)


def _between(near: float, far: float, share: float) -> float:
    return near + share * (far - near)


def _sizes(most: int) -> Iterator[int]:
    size = float(PARAMS.smallest)
    while size <= most:
        yield int(size) // PARAMS.smallest * PARAMS.smallest
        size *= 2**0.5 if size < PARAMS.fine else 2.0


def _passed_ticks(context: Context, most: int, flushed: float) -> dict[int, float]:
    """Ticks of a random line of data sets of growing size over all of which a stream has just passed, by bytes, until
    they answer as slowly as flushed ones."""
    budget = Budget(context.machine.facts, PARAMS.sizing_seconds)
    width = WIDTHS[widths_of(context.machine.facts)[0]]
    found: dict[int, float] = {}
    for size in _sizes(most):
        if budget.left <= 0:
            break
        context.progress(f"what answers behind a pass over {size >> 10} KiB")
        passes = PARAMS.passes if size <= PARAMS.fine else 1
        found[size] = after_a_pass(context, size, width, passes)
        budget.spend((1 + passes) * size)
        if found[size] > AFTER.outgrown * flushed:
            break
    return found
