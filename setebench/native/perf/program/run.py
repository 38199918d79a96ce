"""Counting one run of a program, or a process that runs already, to its end."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from typing import Protocol

import msgspec

from setebench.counters.counted import Event, Interval, Run, difference
from setebench.counters.protocol import Count
from setebench.errors import SetebenchError, UnsupportedError
from setebench.native.perf.messages import Situation
from setebench.native.perf.program.opened import Counters, Opened, Target, open_counters
from setebench.native.perf.program.region_file import VARIABLE, RegionFile
from setebench.native.perf.program.start import Held, gets_other_rights
from setebench.native.perf.program.wanted import Wanted
from setebench.native.perf.program.watch import Ending, Watch, blocked_signals, start_time, threads_of

LISTINGS = 20
"""How often the threads of a process are listed anew because some began meanwhile. Opening takes some 20 microseconds a
thread and event: a process that begins threads faster than that for so long is not counted."""

OTHER_RIGHTS = "{!r} runs with other rights than yours, and the kernel counts no such program: count it as its own user"

MOST_NAMED = 6
"""Names of events in one line of a message."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be counted, and for how long, in seconds: `interval` between intermediate reads, `limit` of the whole;
    None for none. `regions_only`: regions have the PMU's counters for themselves."""

    wanted: tuple[Wanted, ...]
    interval: float | None = None
    limit: float | None = None
    regions_only: bool = False


class Beside(Protocol):
    """What else observes a process while it is counted."""

    def open(self, process: int, counters: Counters) -> None:
        """Nothing was counted yet; a program that we start waits for its first instruction. Raises nothing."""
        ...

    def tick(self, now: float) -> None:
        """An interval has ended, `now` seconds after the begin, and was read."""
        ...


class Programs:
    """Counts programs by this kernel's events."""

    def __init__(self, situation: Situation, beside: Sequence[Beside] = ()) -> None:
        self._situation, self._beside = situation, beside

    def run(self, job: Job, command: Sequence[str]) -> tuple[Run, list[Event]]:
        """Start `command`, count it and everything that it starts, until it ends or a signal asks us to end it.

        Raises `NotStarted` for what can't be started, `UnsupportedError` where nothing wanted can be counted."""
        # the child gets the file's name with its environment, before anything can be opened for the child
        with blocked_signals() as mask, RegionFile(self._situation) as regions:
            environment = {**os.environ, VARIABLE: regions.path}
            with Held(command, environment, mask) as held:
                target = Target(threads=(held.process,), inherit=True, on_exec=True)
                with self._open(job, target) as counters:
                    if gets_other_rights(command[0], environment):
                        raise UnsupportedError(OTHER_RIGHTS.format(command[0]))
                    if job.regions_only:
                        counters.leave_to_regions()
                    regions.offer(counters.opened)
                    rows = self._rows(job, held.process, counters)
                    counters.start()
                    watch = Watch(held.process)
                    held.release()
                    run = rows.run(watch.until_end(job.limit, job.interval, rows.tick))
                    run = msgspec.structs.replace(run, regions=regions.regions(), notes=regions.notes())
                    return run, _events(counters.opened)

    def attach(self, job: Job, process: int) -> tuple[Run, list[Event]]:
        """Count all threads of a process, and what they start, until it ends, the time is over or a signal comes.

        Raises `SetebenchError` where there is no such process, `UnsupportedError` where nothing can be counted."""
        with blocked_signals():
            if start_time(process) is None:
                raise SetebenchError(f"there is no process {process}")
            # as many open files as may be, to stay: every thread takes one for each event
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            with self._open_process(job, process) as counters:
                rows = self._rows(job, process, counters)
                watch = Watch(process, attached=True)
                counters.start()
                run = rows.run(watch.until_end(job.limit, job.interval, rows.tick))
                return run, _events(counters.opened)

    def _rows(self, job: Job, process: int, counters: Counters) -> Rows:
        for each in self._beside:
            each.open(process, counters)
        return Rows(counters, job.interval, self._beside)

    def _open(self, job: Job, target: Target) -> Counters:
        counters = open_counters(job.wanted, target, self._situation)
        if all(each.reason for each in counters.opened):
            reason = counters.opened[0].reason
            names = ", ".join(each.name for each in job.wanted[:MOST_NAMED])
            names += f" and {len(job.wanted) - MOST_NAMED} more" if len(job.wanted) > MOST_NAMED else ""
            raise UnsupportedError(f"{names} can't be counted here: {reason}")
        return counters

    def _open_process(self, job: Job, process: int) -> Counters:
        """Counters of all threads. One that began while they were opened may count twice or not at all: then anew."""
        for _listing in range(LISTINGS):
            threads = threads_of(process)
            if not threads:
                raise SetebenchError(f"process {process} ended before it could be counted")
            counters = self._open(job, Target(threads=threads, inherit=True))
            if set(threads_of(process)) <= set(threads):
                return counters
            counters.close()
        raise SetebenchError(f"process {process} begins threads faster than they can be counted; start it by setebench")


class Rows:
    """The counts of intervals, which add up to those of the run."""

    def __init__(self, counters: Counters, interval: float | None, beside: Sequence[Beside] = ()) -> None:
        self._counters, self._wanted, self._beside = counters, interval is not None, beside
        self._begin = 0.0
        self._before: dict[str, Count] = {}
        self._rows: list[Interval] = []

    def tick(self, now: float) -> None:
        """An interval ends `now`, in seconds since the begin."""
        self._add(now, self._counters.read())
        for each in self._beside:
            each.tick(now)

    def run(self, ending: Ending) -> Run:
        """The whole run; where there were intervals, the last ends with it."""
        counts = self._counters.read()
        if self._wanted:
            self._add(ending.elapsed, counts)
        how = {name: getattr(ending, name) for name in ending.__struct_fields__}
        return Run(counts=counts, intervals=self._rows, **how)

    def _add(self, end: float, counts: dict[str, Count]) -> None:
        differences = {name: difference(count, self._before.get(name)) for name, count in counts.items()}
        self._rows.append(Interval(begin=self._begin, end=end, counts=differences))
        self._begin, self._before = end, counts


def _events(opened: Sequence[Opened]) -> list[Event]:
    found = []
    for each in opened:
        known = {name: getattr(each.wanted, name) for name in ("name", "event", "unit", "scope")}
        found.append(Event(user_only=each.user_only, **known))
    return found
