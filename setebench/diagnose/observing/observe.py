"""Observing a program, a process or a function of Python: counts by interval, samples of time, how it ended.

Counting is `native.perf.program`'s; beside it each CPU has a buffer for samples of the program's time, which is emptied
at the end of every interval and only understood when the program has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from setebench.counters.counted import Interval, Run, regions
from setebench.diagnose.observing.sockets import SocketCounts
from setebench.diagnose.observing.time_samples import TimeSampling, Wish
from setebench.diagnose.observing.turns import Sets, Turns, resting
from setebench.diagnose.observing.work import WorkByThread, with_work
from setebench.diagnose.params import Params
from setebench.diagnose.records import Hit, Region, Thread, Timeline, summed
from setebench.native.perf.kernel import Kernel
from setebench.native.perf.messages import Situation
from setebench.native.perf.program.opened import Counters
from setebench.native.perf.program.run import Beside, Job, Programs
from setebench.native.perf.program.wanted import Wanted


class Kit(msgspec.Struct, frozen=True, kw_only=True):
    """What observing needs: the kernel's calls, what the system allows, what is to be counted, in which sets by
    turns, where not all fits at once, and by which role the work of each thread."""

    kernel: Kernel
    situation: Situation
    wanted: tuple[Wanted, ...]
    sets: Sets = ()
    work: Wanted | None = None


def observe_program(kit: Kit, wish: Wish, command: Sequence[str]) -> tuple[Timeline, Run]:
    """Start a program and observe it and all that it starts to its end.

    Raises as `native.perf.program.run.Programs.run` does."""
    with (
        TimeSampling(kit.kernel, wish, pmus=kit.situation.pmus) as sampling,
        WorkByThread(kit.kernel, kit.work) as work,
    ):
        sockets = SocketCounts(kit.kernel)
        job = Job(wanted=kit.wanted, interval=wish.interval, limit=wish.limit)
        run, _events = Programs(
            kit.kernel, kit.situation, _All(sampling, sockets, Turns(kit.kernel, kit.sets), work)
        ).run(job, command)
        timeline = with_work(timeline_of(kit, run, sampling, tuple(command)), work.counts())
        return sockets.added_to(timeline), run


def observe_process(kit: Kit, wish: Wish, process: int) -> tuple[Timeline, Run]:
    """Observe a process that runs already, and what it starts, until it ends, the time is over, or a signal comes.

    Raises as `native.perf.program.run.Programs.attach` does."""
    name = _command_of(process)
    with TimeSampling(kit.kernel, wish, attached=True, pmus=kit.situation.pmus) as sampling:
        job = Job(wanted=kit.wanted, interval=wish.interval, limit=wish.limit)
        run, _events = Programs(kit.kernel, kit.situation, _All(sampling, Turns(kit.kernel, kit.sets))).attach(
            job, process
        )
        return timeline_of(kit, run, sampling, name), run


class _All:
    """Everything that observes beside counting."""

    def __init__(self, *beside: Beside) -> None:
        self._all = beside

    def open(self, process: int, counters: Counters) -> None:
        for each in self._all:
            each.open(process, counters)

    def tick(self, now: float) -> None:
        for each in self._all:
            each.tick(now)


def _command_of(process: int) -> tuple[str, ...]:
    with suppress(OSError), open(f"/proc/{process}/cmdline", "rb") as file:
        return tuple(word.decode(errors="replace") for word in file.read().split(b"\0") if word)
    return (f"process {process}",)


# -- the timeline -------------------------------------------------------------------------------------------------


def timeline_of(kit: Kit, run: Run, sampling: TimeSampling, program: tuple[str, ...]) -> Timeline:
    """What was counted and sampled, put together."""
    profile = sampling.profile()
    rows = [
        msgspec.structs.replace(each, counts=resting(each.counts, kit.sets, number))
        for number, each in enumerate(run.intervals)
    ]
    intervals = rows if kit.sets else joined(rows, Params().most_intervals)  # sums over turns would lack all of them
    hits = profile.hits([each.end for each in intervals])
    return Timeline(
        program=program,
        intervals=tuple(intervals),
        roles={each.name: run.counts[each.name].reason for each in kit.wanted},
        hits=hits,
        loads=profile.loads(),
        threads=threads_seen(hits, profile.names),
        regions=tuple(
            Region(name=each.name, calls=each.calls, seconds=each.seconds, counts=each.counts)
            for each in regions(run.regions)
        ),
        unsampled=sampling.reason or ("" if hits else "the program took too little CPU time for a sample"),
        lost_samples=sampling.lost,
        ending=ending_text(run),
    )


def joined(intervals: Sequence[Interval], most: int) -> list[Interval]:
    """At most so many intervals: neighbours added up where there are more."""
    size = -(-len(intervals) // most)
    if size <= 1:
        return list(intervals)
    groups = [intervals[first : first + size] for first in range(0, len(intervals), size)]
    return [_added(group) for group in groups]


def _added(group: Sequence[Interval]) -> Interval:
    roles = tuple(dict.fromkeys(role for each in group for role in each.counts))
    return Interval(begin=group[0].begin, end=group[-1].end, counts=summed([each.counts for each in group], roles))


def threads_seen(hits: Sequence[Hit], names: dict[int, str]) -> tuple[Thread, ...]:
    """Threads by the samples that named them, in the order of their numbers."""
    seconds: dict[int, float] = {}
    for hit in hits:
        seconds[hit.thread] = seconds.get(hit.thread, 0.0) + hit.seconds
    return tuple(
        Thread(number=number, name=names.get(number, ""), cpu_seconds=seconds[number]) for number in sorted(seconds)
    )


def ending_text(run: Run) -> str:
    """How the program ended, in words."""
    if run.signal is not None:
        return f"killed by signal {run.signal}"
    return "" if run.status is None else f"exit status {run.status}"
