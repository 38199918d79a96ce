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
from setebench.native.perf.kernel import Kernel
from setebench.native.perf.messages import Situation
from setebench.native.perf.program.opened import Counters, Opened, Target, open_counters
from setebench.native.perf.program.region_file import VARIABLE, RegionFile
from setebench.native.perf.program.start import Held, gets_other_rights, hold
from setebench.native.perf.program.wanted import Wanted
from setebench.native.perf.program.watch import Ending, Params, Watch, blocked_signals, start_time, threads_of

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
    params: Params = Params()


class Beside(Protocol):
    """What else observes a process while it is counted."""

    def open(self, process: int, counters: Counters) -> None:
        """Nothing was counted yet; a program that we start waits for its first instruction. Raises nothing."""
        ...

    def tick(self, now: float) -> None:
        """An interval has ended, `now` seconds after the begin, and was read."""
        ...


class _Nothing:
    """Nothing else observes."""

    def open(self, process: int, counters: Counters) -> None:
        pass

    def tick(self, now: float) -> None:
        pass


class Programs:
    """Counts programs by this kernel's events."""

    def __init__(self, kernel: Kernel, situation: Situation, beside: Beside | None = None) -> None:
        self._kernel, self._situation = kernel, situation
        self._beside = beside or _Nothing()

    def run(self, job: Job, command: Sequence[str]) -> tuple[Run, list[Event]]:
        """Start `command`, count it and everything that it starts, until it ends or a signal asks us to end it.

        Raises `NotStarted` for what can't be started, `UnsupportedError` where nothing wanted can be counted."""
        # the child gets the file's name with its environment, before anything can be opened for the child
        with blocked_signals() as mask, RegionFile(self._situation) as regions:
            environment = {**os.environ, VARIABLE: regions.path}
            with hold(command, environment, mask) as held, self._open(job, _of_program(held.process)) as counters:
                if gets_other_rights(command[0], environment):
                    raise UnsupportedError(OTHER_RIGHTS.format(command[0]))
                if job.regions_only:
                    counters.leave_to_regions()
                regions.offer(counters.opened)
                return self._counted(job, counters, held, regions), _events(counters.opened)

    def attach(self, job: Job, process: int) -> tuple[Run, list[Event]]:
        """Count all threads of a process, and what they start, until it ends, the time is over or a signal comes.

        Raises `SetebenchError` where there is no such process, `UnsupportedError` where nothing can be counted."""
        with blocked_signals():
            if start_time(process) is None:
                raise SetebenchError(f"there is no process {process}")
            _allow_many_files()
            watch = Watch(process, attached=True, params=job.params)
            with self._open_process(job, process) as counters:
                rows = _Rows(counters, job.interval, self._beside)
                self._beside.open(process, counters)
                watch.begin()
                counters.start()
                ending = watch.until_end(job.limit, job.interval, rows.tick)
                return rows.run(ending), _events(counters.opened)

    def _counted(self, job: Job, counters: Counters, held: Held, regions: RegionFile) -> Run:
        rows = _Rows(counters, job.interval, self._beside)
        self._beside.open(held.process, counters)
        watch = Watch(held.process, params=job.params)
        counters.start()
        watch.begin()
        held.release()
        ending = watch.until_end(job.limit, job.interval, rows.tick)
        run = rows.run(ending)
        return msgspec.structs.replace(run, regions=regions.regions(), notes=[*run.notes, *regions.notes()])

    def _open(self, job: Job, target: Target) -> Counters:
        counters = open_counters(job.wanted, target, self._kernel, self._situation)
        if not any(each.counts for each in counters.opened):
            reason = counters.opened[0].reason
            counters.close()
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


class _Rows:
    """The counts of intervals, which add up to those of the run."""

    def __init__(self, counters: Counters, interval: float | None, beside: Beside) -> None:
        self._counters, self._wanted, self._beside = counters, interval is not None, beside
        self._begin = 0.0
        self._before: dict[str, Count] = {}
        self._rows: list[Interval] = []

    def tick(self, now: float) -> None:
        """An interval ends `now`, in seconds since the begin."""
        self._add(now, self._counters.read())
        self._beside.tick(now)

    def run(self, ending: Ending) -> Run:
        """The whole run; where there were intervals, the last ends with it."""
        counts = self._counters.read()
        if self._wanted:
            self._add(ending.elapsed, counts)
        return Run(
            elapsed=ending.elapsed,
            status=ending.status,
            signal=ending.signal,
            asked=ending.asked,
            counts=counts,
            intervals=self._rows,
        )

    def _add(self, end: float, counts: dict[str, Count]) -> None:
        differences = {name: difference(count, self._before.get(name)) for name, count in counts.items()}
        self._rows.append(Interval(begin=self._begin, end=end, counts=differences))
        self._begin, self._before = end, counts


def _allow_many_files() -> None:
    """As many open files as the system lets this process have: every thread takes one for each event. To stay, as all
    that is opened later needs a number below the limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _of_program(process: int) -> Target:
    return Target(threads=(process,), inherit=True, on_exec=True)


def _events(opened: Sequence[Opened]) -> list[Event]:
    return [
        Event(
            name=each.wanted.name,
            event=each.wanted.event,
            unit=each.wanted.unit,
            scope=each.wanted.scope,
            user_only=each.user_only,
        )
        for each in opened
    ]
