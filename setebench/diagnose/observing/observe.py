"""Observing a program, a process or a function of Python: counts by interval, samples of time, how it ended.

Counting is `native.perf.program`'s; beside it each CPU has a buffer for samples of the program's time, which is emptied
at the end of every interval and only understood when the program has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from setebench.counters.counted import Interval, Run, regions
from setebench.diagnose.observing.time_samples import TimeSampling, Wish
from setebench.diagnose.observing.turns import Sets, Turns, without_resting
from setebench.diagnose.observing.work import WorkByThread
from setebench.diagnose.params import Params
from setebench.diagnose.records import Hit, Region, Thread, Timeline, summed
from setebench.native.perf.messages import Situation
from setebench.native.perf.program.run import Job, Programs
from setebench.native.perf.program.wanted import Wanted


class Kit(msgspec.Struct, frozen=True, kw_only=True):
    """What observing needs: what the system allows, what is to be counted, in which sets by
    turns, where not all fits at once, and by which role the work of each thread."""

    situation: Situation
    wanted: tuple[Wanted, ...]
    sets: Sets = ()
    work: Wanted | None = None


def observe_program(kit: Kit, wish: Wish, command: Sequence[str]) -> tuple[Timeline, Run]:
    """Start a program and observe it and all that it starts to its end.

    Raises as `native.perf.program.run.Programs.run` does."""
    job = Job(wanted=kit.wanted, interval=wish.interval, limit=wish.limit)
    with TimeSampling(wish, pmus=kit.situation.pmus) as sampling, WorkByThread(kit.work) as work:
        programs = Programs(kit.situation, (sampling, Turns(kit.sets), work))
        run, _events = programs.run(job, command)
        return work.added_to(timeline_of(kit, run, sampling, tuple(command))), run


def observe_process(kit: Kit, wish: Wish, process: int) -> tuple[Timeline, Run]:
    """Observe a process that runs already, and what it starts, until it ends, the time is over, or a signal comes.

    Raises as `native.perf.program.run.Programs.attach` does."""
    name: tuple[str, ...] = (f"process {process}",)
    with suppress(OSError), open(f"/proc/{process}/cmdline", "rb") as file:
        name = tuple(word.decode(errors="replace") for word in file.read().split(b"\0") if word)
    job = Job(wanted=kit.wanted, interval=wish.interval, limit=wish.limit)
    with TimeSampling(wish, attached=True, pmus=kit.situation.pmus) as sampling:
        run, _events = Programs(kit.situation, (sampling, Turns(kit.sets))).attach(job, process)
        return timeline_of(kit, run, sampling, name), run


def timeline_of(kit: Kit, run: Run, sampling: TimeSampling, program: tuple[str, ...]) -> Timeline:
    """What was counted and sampled, put together."""
    profile = sampling.profile()
    intervals = [
        msgspec.structs.replace(each, counts=without_resting(each.counts, kit.sets, number))
        for number, each in enumerate(run.intervals)
    ]
    if not kit.sets:  # sums over turns would lack all of them
        intervals = joined(intervals, Params().most_intervals)
    hits = profile.hits([each.end for each in intervals])
    killed = f"killed by signal {run.signal}" if run.signal is not None else ""
    return Timeline(
        program=program,
        intervals=tuple(intervals),
        roles={each.name: run.counts[each.name].reason for each in kit.wanted},
        hits=hits,
        loads=profile.loads(),
        threads=_threads(hits, profile.names),
        regions=tuple(
            Region(name=each.name, calls=each.calls, seconds=each.seconds, counts=each.counts)
            for each in regions(run.regions)
        ),
        unsampled=sampling.reason or ("" if hits else "the program took too little CPU time for a sample"),
        lost_samples=sampling.lost,
        ending=killed or ("" if run.status is None else f"exit status {run.status}"),
    )


def joined(intervals: Sequence[Interval], most: int) -> list[Interval]:
    """At most so many intervals: neighbours added up where there are more."""
    size = max(1, -(-len(intervals) // most))
    groups = [intervals[first : first + size] for first in range(0, len(intervals), size)]
    return [_added(group) if size > 1 else group[0] for group in groups]


def _added(group: Sequence[Interval]) -> Interval:
    roles = tuple(dict.fromkeys(role for each in group for role in each.counts))
    return Interval(begin=group[0].begin, end=group[-1].end, counts=summed([each.counts for each in group], roles))


def _threads(hits: Sequence[Hit], names: dict[int, str]) -> tuple[Thread, ...]:
    """Threads by the samples that named them, in the order of their numbers."""
    seconds: dict[int, float] = {}
    for hit in hits:
        seconds[hit.thread] = seconds.get(hit.thread, 0.0) + hit.seconds
    return tuple(Thread(number=each, name=names.get(each, ""), cpu_seconds=seconds[each]) for each in sorted(seconds))
