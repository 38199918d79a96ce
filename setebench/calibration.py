"""What a run has measured once and for all of a machine: its clock, its pace, its line, its levels. Frozen; each step
that finds more puts a new record in its place (`Context.calibration`), so whoever keeps an old one keeps it as it was.

The line is measured here, as every region is laid out by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from setebench.errors import UnsupportedError
from setebench.machine import Machine, run_interleaved
from setebench.probe import Base, Probe
from setebench.stats.ticks.location import mean_ticks

if TYPE_CHECKING:
    from setebench.stats.estimate import Interval

MEMORY = "memory"

USUAL_LINE = 64
"""Bytes that a line is taken to have where flushes don't show it."""


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The levels of the hierarchy by name, nearest first and memory last, as rounds of the size sweep found them.

    `cycles` is about what a load from each takes, `latency` the same with its interval, `ns` in nanoseconds, `sete`
    cycles of single loads. A cache has a `capacity` in bytes: half the loads from a working set of so many are served
    further out; a last one that was not outgrown has none. `pace` is the core's clock in cycles per tick of the
    counter, and its range over rounds. `sweep` is the evidence."""

    cycles: dict[str, float]
    latency: dict[str, Interval] = field(default_factory=dict)
    ns: dict[str, Interval] = field(default_factory=dict)
    sete: dict[str, Interval] = field(default_factory=dict)
    capacity: dict[str, Interval] = field(default_factory=dict)
    pace: Interval | None = None
    sweep: dict[str, Any] = field(default_factory=dict)

    @property
    def ends_bytes(self) -> dict[str, float]:
        """About where each cache ends, of those that were outgrown."""
        return {name: capacity.value for name, capacity in self.capacity.items()}

    @property
    def caches(self) -> tuple[str, ...]:
        """All levels but memory, nearest first."""
        return tuple(name for name in self.cycles if name != MEMORY)

    def shared(self, name: str) -> bool:
        """Whether others may use a level as well.

        Who does is measured later if at all, so memory counts so, and all caches but the first two, and the last one
        but where it is the only one. How much neighbours do to such a level drifts in longer times than a run lasts,
        and all threads together may have no more of it than one."""
        number = list(self.cycles).index(name)
        return name == MEMORY or number > 1 or 0 < number == len(self.caches) - 1


@dataclass(frozen=True)
class Reference:
    """Work of so many core `cycles`, which paired probes begin and end with."""

    work: Probe
    cycles: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """`step_ticks`: granularity of the clock. `reference`: work of a known duration.
    `line_bytes`: what a flush takes out of the caches, 0 where it does not show. `issue_pace`: the fastest pace of
    independent instructions beside a chain that was seen, 0 before. None until measured."""

    step_ticks: float | None = None
    reference: Reference | None = None
    line_bytes: int | None = None
    issue_pace: float = 0.0
    levels: Levels | None = None

    @property
    def level_cycles(self) -> dict[str, float]:
        """About how many cycles a load from each level takes, nearest first; empty before the levels are found."""
        return self.levels.cycles if self.levels else {}


# -- the line ---------------------------------------------------------------------------------------------------------

DISTANCES = (0, *(8 << octave for octave in range(7)))
"""Bytes from a flushed address to the one that is loaded: the first is a sure miss, the last, 512, a sure hit."""

LINE_SAMPLES = 120
"""Loads at each distance: means of hits and misses on a clock of 36 ticks are some ticks off."""

FLUSH_CYCLES = 2000
"""Wait behind a flush: a written-back line is on its way that long."""

CLEAR = 0.2
"""A mean nearer to the middle between a hit and a miss, in parts of their difference, says neither."""

LINE_BYTES_OF_POOL = 1 << 18
"""Memory in which lines are flushed."""


def measured_line(machine: Machine, cpu: int | None, rng: np.random.Generator) -> int:
    """Bytes that a flush takes out of the caches at once, 0 where hits and misses are not clear, or nothing flushes.

    Nothing is loaded between the flush and the load that is timed, so what misses was part of the flushed line, and no
    prefetcher brought what hits."""
    here, there = Base("here"), Base("there")
    probe = Probe().load(here).load(there).fence().flush(here).fence().wait(FLUSH_CYCLES).fence()
    probe = probe.start().load(there).stop()
    with suppress(UnsupportedError), ExitStack() as stack:
        region = machine.allocate(LINE_BYTES_OF_POOL, min(machine.facts.page_sizes))
        stack.callback(machine.release, region)
        at = region.address + rng.integers(0, region.size // (2 * DISTANCES[-1]), LINE_SAMPLES) * 2 * DISTANCES[-1]
        places = [{here: at, there: at + distance} for distance in DISTANCES]
        ticks = run_interleaved(machine, [probe] * len(DISTANCES), places, rng, cpu=cpu)
        return line_of([mean_ticks(each) for each in ticks])
    return 0


def line_of(means: Sequence[float]) -> int:
    """The smallest of `DISTANCES` that was a hit, by mean ticks at each, if all smaller ones missed and all larger ones
    hit; else 0."""
    middle, gap = (means[0] + means[-1]) / 2, means[0] - means[-1]
    if gap <= 0 or any(abs(mean - middle) < CLEAR * gap for mean in means):
        return 0
    hits = [mean < middle for mean in means]
    first = hits.index(True)
    return DISTANCES[first] if all(hits[first:]) else 0
