"""The tunables of observing a program, with units and where they come from. Those of advice stand beside its rules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Params:
    """How a program is observed, and what of it is shown."""

    helper: float = 0.01
    """A thread that does less than this part of the most loaded one's work only starts others, waits, or prints: it is
    left out of the mean, which would say little of how work is divided."""

    clock_pairs: int = 5
    """Of runs at full and at lowered clock; four give an interval with some sense, one more is for an odd one."""

    most_spots: int = 12
    """Functions, and objects, that are listed; what others took is under "other" in the columns by interval."""

    most_intervals: int = 600
    """In a timeline; of a longer run neighbours are added up. More than a plot shows, and a file of some 100 KiB."""

    most_lines: int = 400
    """Addresses of the hottest code whose source lines are asked for."""

    addr2line_seconds: float = 20.0
    """As long as it may take for one file; large debug information takes seconds to be read."""

    loads_hz: int = 997
    """Sampled loads a second and CPU, where the CPU samples any: about a microsecond each (PEBS, IBS)."""

    least_load_cycles: int = 30
    """Loads that L1 and L2 serve at once are not asked for: those that memory served are wanted."""

    record_pages: int = 4
    """Of a buffer: some 400 threads may end within an interval on each CPU."""


@dataclass(frozen=True, kw_only=True)
class WatchParams:
    """How memory latency is watched beside a program."""

    lines: int = 24
    """Of a chase. Each in a page of its own, so no prefetcher sees two accesses in a page; as few as any first-level
    data TLB holds with room to spare; so many that the two clock reads around them are some 1 % of the time."""

    pages: int = 1024
    """From which those lines are drawn anew for each chase."""

    repetitions: int = 16
    """Chases of a point, whose median it is: about 0.1 ms of the probing core."""

    idle_points: int = 9
    """Points without the program, before it begins."""

    least_idle_percent: float = 90.0
    """A core that does nothing for so much of the time has nothing else to do but what every system does now and
    then."""

    look_seconds: float = 0.5
    """How long CPUs are observed for that: 50 of the kernel's ticks of 10 ms, so one tick is 2 %."""

    most_wait_ns: int = 100_000
    """A point during which the probing thread had to wait longer than this for its CPU is dropped: it was not alone."""


@dataclass(frozen=True, kw_only=True)
class DemonstrationParams:
    """The three phases of the demonstration."""

    intervals: int = 6
    """Of each phase: two more than the least that give an interval with some sense."""

    chased_pages: int = 256
    """From which the lines of the chase are drawn, each in a page of its own, so that no prefetcher foresees one."""

    chased_lines: int = 240
    """Of the chase."""

    array_bytes: int = 1 << 17
    """Of the stream: some 2,000 lines, beside which its beginning is nothing."""

    samples_hz: float = 1e6
    """Of the time, which is known here without sampling."""

    arithmetic_rounds: int = 8000
    """Of a load from L1 and eight additions: as long as the other phases take."""
