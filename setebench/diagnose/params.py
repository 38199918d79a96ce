"""The tunables of observing a program and of what is said of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Params:
    """How a program is observed, and what of it is shown."""

    helper: float = 0.01  # part of the most loaded thread's work: who does less only starts others, waits or prints
    most_spots: int = 12  # functions that are listed; what others took is under "other"
    most_intervals: int = 600  # of a timeline: more than a plot shows; of a longer run neighbours are added up
    most_lines: int = 400  # hottest addresses whose source lines are looked up
    addr2line_seconds: float = 20.0  # for one file: large debug information takes seconds to be read
    loads_hz: int = 997  # sampled loads per second and CPU, at about a microsecond each (PEBS, IBS)
    least_load_cycles: int = 30  # a load that takes less was served by L1 or L2
    record_pages: int = 4  # of a buffer for ending threads: some 400 per interval and CPU


@dataclass(frozen=True, kw_only=True)
class WatchParams:
    """How memory latency is watched beside a program."""

    lines: int = 24  # of a chase, each in a page of its own: fewer than any first TLB has entries
    pages: int = 1024  # from which those are drawn anew for each chase
    repetitions: int = 16  # chases whose median a point is: some 0.1 ms
    idle_points: int = 9  # before the program begins
    least_idle_percent: float = 90.0  # of an idle core's time: what every system does now and then is less
    look_seconds: float = 0.5  # CPUs are observed for so long to find an idle one: 50 of the kernel's ticks
    most_wait_ns: int = 100_000  # for its CPU: a point that waited longer was not alone, and is dropped


@dataclass(frozen=True, kw_only=True)
class DemonstrationParams:
    """The three phases of the demonstration."""

    intervals: int = 6  # of each phase: two more than the least that give an interval with some sense
    pages: int = 256  # from which the lines of the chase are drawn, each in one of its own
    lines: int = 240  # of the chase
    array_bytes: int = 1 << 17  # of the stream: 2,000 lines, beside which its start is nothing
    rounds: int = 8000  # of a load from L1 and eight additions: as long as the other phases take
