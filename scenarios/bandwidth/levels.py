"""Which data sets lie in which level: found by following pointers, and never taken from what the system says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from setebench.calibration import MEMORY, Kind, kind_of
from setebench.experiments.calibrate import quick_cycles_per_tick
from setebench.experiments.levels import find_levels, working_memory
from setebench.experiments.size_sweep import SizeSweepParams
from setebench.experiments.streams.after_a_pass import PARAMS as AFTER
from setebench.experiments.streams.after_a_pass import after_a_pass, flushed_ticks, outgrowing
from setebench.experiments.streams.budget import Budget
from setebench.scenario import Context

from .params import PARAMS

Ask = Callable[[int], float]
"""Ticks of a line of so large a data set after a pass over all of it."""


@dataclass(frozen=True)
class Levels:
    """All levels, nearest first and memory last: ticks of a load from each, and the bytes at which each cache ends
    (missing for one that was not outgrown); `flushed` are ticks of a line of memory after a flush."""

    ticks: Mapping[str, float]
    ends: Mapping[str, float]
    flushed: float

    @property
    def caches(self) -> list[str]:
        """All levels but memory."""
        return [name for name in self.ticks if name != MEMORY]

    def end(self, cache: str, threads: int, per_core: int) -> float:
        """Bytes of each of so many threads, so many of them on a core, at which a cache ends, if all that may share it
        do; 0 where that is not known."""
        shared = kind_of(cache, self.caches) is not Kind.PRIVATE
        return self.ends.get(cache, 0.0) / (threads if shared else per_core)

    def serves(self, name: str, ticks: float) -> int:
        """-1 where lines that take so long come from nearer levels to more than is allowed, 1 where they come from
        further ones, 0 where from this cache."""
        order = list(self.ticks)
        number = order.index(name)
        near, own, far = (self.ticks[each] for each in order[number - 1 : number + 2])
        if ticks < near + (1 - PARAMS.left) * (own - near):
            return -1
        return int(ticks > min(PARAMS.same_latency * own, own + PARAMS.beyond * (far - own)))

    def is_memory(self, ticks: float) -> bool:
        """Whether lines that take so long come from memory."""
        return ticks > AFTER.outgrown * self.flushed


@dataclass(frozen=True)
class DataSets:
    """Bytes of each thread of a team: in `caches` what was seen to lie in each, nearest first, in ascending order, and
    in `memory` what outgrows all of them (0 where nothing was found). `ticks` by size are those of lines after a pass.
    """

    caches: Mapping[str, Sequence[int]]
    memory: int
    ticks: Mapping[int, float] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """All levels, memory last."""
        return (*self.caches, MEMORY)

    def without(self, caches: Sequence[str]) -> DataSets:
        """The same with nothing in some caches."""
        return replace(self, caches={name: () if name in caches else own for name, own in self.caches.items()})


def levels_of(context: Context) -> Levels:
    """Levels of this machine."""
    context.progress("where the levels end")
    region = working_memory(context)
    try:
        found = find_levels(context, region)
    finally:
        context.machine.release(region)
    per_tick = quick_cycles_per_tick(context)
    ticks = {name: cycles / per_tick for name, cycles in found.cycles.items()}
    return Levels(ticks, found.ends_bytes, flushed_ticks(context))


def sets_of(context: Context, levels: Levels, cpus: Sequence[int], most: int) -> DataSets:
    """Data sets of a team of threads on these CPUs, of up to `most` bytes each."""
    budget = Budget(context.machine.facts, PARAMS.sizing_seconds)
    threads = len(cpus)
    per_core = max((sum(cpu in group for cpu in cpus) for group in context.machine.facts.siblings), default=1)
    ends = {name: levels.end(name, threads, per_core) for name in levels.caches}
    first, *further = levels.caches
    later = 0.0
    ticks: dict[int, float] = {}

    def ask(size: int) -> float:
        passes = PARAMS.passes if size * threads <= PARAMS.fine else 1
        context.progress(f"what answers behind a pass of {threads} over {size >> 10} KiB")
        found = after_a_pass(context, size, passes, cpus) - later
        ticks[size] = min(found, ticks.get(size, found))
        budget.spend(passes * size * threads)
        return ticks[size]

    caches = {first: tuple(_whole(part * ends[first]) for part in PARAMS.parts_of_first if ends[first])}
    if per_core > 1 and caches[first]:  # siblings make every load take longer
        size = caches[first][-1]
        later = max(ask(size) - after_a_pass(context, size, PARAMS.passes, cpus[:1]), 0.0)
    above = ends[first]
    for name in further:
        caches[name] = _inside(levels, name, PARAMS.step * above, ask)
        above = max(caches[name], default=ends[name])
    above = max(above, ends[levels.caches[-1]] or SizeSweepParams().largest / threads)
    larger = takewhile(lambda _: budget.left > 0, _larger(PARAMS.step * above, most))
    outgrown = outgrowing(larger, ask, levels.flushed)
    return DataSets(caches, outgrown, ticks)


def _inside(levels: Levels, name: str, size: float, ask: Ask) -> tuple[int, ...]:
    """From `size` upwards the smallest data set that lies in a cache, as the nearer one serves nothing of it, and one
    twice as large, or half an octave where the cache ends before; nothing where further levels serve too much first."""
    if not size or levels.is_memory(levels.ticks[name]):
        return ()  # no cache, but memory that was disturbed when levels were looked for
    while size <= SizeSweepParams().largest and (where := levels.serves(name, ask(_whole(size)))) <= 0:
        if where == 0:
            larger = (_whole(2 * size), _whole(PARAMS.step * size))
            second = next((each for each in larger if levels.serves(name, ask(each)) == 0), None)
            return (_whole(size), second) if second else (_whole(size),)
        size *= PARAMS.step
    return ()


def _larger(size: float, most: int) -> Iterator[int]:
    """Data sets half an octave apart."""
    while 0 < size <= most:
        yield _whole(size)
        size *= PARAMS.step


def _whole(size: float) -> int:
    return max(int(size) // PARAMS.whole, 1) * PARAMS.whole
