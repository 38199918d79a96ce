"""Counting one run of a program, or a process that runs already, to its end.

Signals are blocked and waited for, so that none comes at a bad time, and the kernel says of each whether it sent it
itself: Ctrl-C on a terminal reaches the program as well as us, `kill` reaches us alone and is passed on.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Protocol

import msgspec

from setebench.counters.counted import Event, Interval, Run, difference
from setebench.counters.protocol import Count
from setebench.errors import SetebenchError, UnsupportedError
from setebench.native.perf.encode import Wanted
from setebench.native.perf.messages import Situation
from setebench.native.perf.opened import Counters, Target
from setebench.native.perf.program.region_file import VARIABLE, RegionFile
from setebench.native.perf.program.start import Held, gets_other_rights

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals by which a user ends what runs."""
LISTINGS = 20
"""How often the threads of a process are listed anew because some began meanwhile. Opening takes some 20 microseconds a
thread and event: a process that begins threads faster than that for so long is not counted."""
GRACE = 5.0
"""Seconds between a signal that should end a program and the next stronger one."""
POLL_CHILD, POLL_OTHER = 0.5, 0.05
"""Seconds: a child's end is signalled, unless a thread of a program that embeds us takes the signal; that of another
process isn't, and asking takes about 20 microseconds."""
OTHER_RIGHTS = "{!r} runs with other rights than yours, and the kernel counts no such program: count it as its own user"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be counted, and for how long, in seconds: `interval` between intermediate reads, `limit` of the whole;
    None for none. `regions_only`: regions have the PMU's counters for themselves."""

    wanted: tuple[Wanted, ...]
    interval: float | None = None
    limit: float | None = None
    regions_only: bool = False


class Observer(Protocol):
    """What else observes a process while it is counted."""

    def open(self, process: int, counters: Counters) -> None:
        """Nothing was counted yet; a program that we start waits for its first instruction. Raises nothing."""
        ...

    def tick(self, now: float) -> None:
        """An interval has ended, `now` seconds after the begin, and was read."""
        ...


class Programs:
    """Counts programs by this kernel's events."""

    def __init__(self, situation: Situation, observers: Sequence[Observer] = ()) -> None:
        self._situation, self._observers = situation, observers

    def run(self, job: Job, command: Sequence[str]) -> tuple[Run, list[Event]]:
        """Start `command`, count it and everything that it starts, until it ends or a signal says to end it.

        Raises `NotStarted` for what can't be started, `UnsupportedError` where nothing wanted can be counted."""
        # the child gets the file's name with its environment, before anything can be opened for the child
        with blocked_signals() as mask, RegionFile(self._situation) as regions:
            environment = {**os.environ, VARIABLE: regions.path}
            with (
                Held(command, environment, mask) as held,
                self._open(job, Target(threads=(held.process,), inherit=True, on_exec=True)) as counters,
            ):
                if gets_other_rights(command[0], environment):
                    raise UnsupportedError(OTHER_RIGHTS.format(command[0]))
                if job.regions_only:
                    counters.leave_to_regions()
                regions.offer(counters)
                rows = self._rows(job, held.process, counters)
                counters.switch(True)
                watch = Watch(held.process)
                held.release()
                run = rows.run(watch.until_end(job, rows.tick))
                run = msgspec.structs.replace(run, regions=regions.regions(), notes=regions.notes())
                return run, _events(counters)

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
                counters.switch(True)
                run = rows.run(watch.until_end(job, rows.tick))
                return run, _events(counters)

    def _rows(self, job: Job, process: int, counters: Counters) -> Rows:
        for each in self._observers:
            each.open(process, counters)
        return Rows(counters, job.interval, self._observers)

    def _open(self, job: Job, target: Target) -> Counters:
        counters = Counters(job.wanted, target, self._situation)
        if len(counters.failed) == len(job.wanted):
            names = ", ".join(each.name for each in job.wanted[:6])
            raise UnsupportedError(f"{names} can't be counted here: {counters.failed[job.wanted[0].name].reason}")
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


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended: `status` of a program that exited, `signal` of one that was killed, neither of a process that was
    no child of ours or that went on. `ended_by`: the signal by which a user ended it, 0 if none did."""

    status: int | None = None
    signal: int | None = None
    ended_by: int = 0
    elapsed: float = 0.0


class Rows:
    """The counts of intervals, which add up to those of the run."""

    def __init__(self, counters: Counters, interval: float | None, observers: Sequence[Observer] = ()) -> None:
        self._counters, self._wanted, self._observers = counters, interval is not None, observers
        self._begin = 0.0
        self._before: dict[str, Count] = {}
        self._rows: list[Interval] = []

    def tick(self, now: float) -> None:
        """An interval ends `now`, in seconds since the begin."""
        self._add(now, self._counters.read())
        for each in self._observers:
            each.tick(now)

    def run(self, ending: Ending) -> Run:
        """The whole run; where there were intervals, the last ends with it."""
        counts = self._counters.read()
        if self._wanted:
            self._add(ending.elapsed, counts)
        return Run(counts=counts, intervals=self._rows, **msgspec.structs.asdict(ending))

    def _add(self, end: float, counts: dict[str, Count]) -> None:
        differences = {name: difference(count, self._before.get(name)) for name, count in counts.items()}
        self._rows.append(Interval(begin=self._begin, end=end, counts=differences))
        self._begin, self._before = end, counts


def _events(counters: Counters) -> list[Event]:
    return [
        Event(name=e.name, event=e.event, unit=e.unit, scope=e.scope, user_only=e.name in counters.user_only)
        for e in counters.wanted
    ]


# -- waiting ----------------------------------------------------------------------------------------------------------


@contextmanager
def blocked_signals() -> Iterator[set[int]]:
    """Block what `Watch` waits for, but for signals that our caller had us ignore; gives the mask that was."""
    awaited = _awaited()
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # then no child's status could be had
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited | {signal.SIGCHLD})
    try:
        yield {int(each) for each in before}
    finally:
        while signal.sigtimedwait(awaited, 0):  # signals that came after the end were meant for what has ended
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _awaited() -> set[signal.Signals]:
    return {each for each in ENDING if signal.getsignal(each) is not signal.SIG_IGN}


class Watch:
    """Waits for process `process`, a child of ours or (`attached`) any other. Seconds are counted from here."""

    def __init__(self, process: int, *, attached: bool = False) -> None:
        self._process, self._attached = process, attached
        self._begun_ticks = start_time(process) if attached else None
        self._begin = time.monotonic()
        self._ended_by = 0
        self._strength = 0
        self._stronger_at = inf

    def until_end(self, job: Job, tick: Callable[[float], None]) -> Ending:
        """Wait for the end of the process, for the job's limit, or for a user's signal. `tick` is called with the
        seconds since the begin each interval. A process that goes on is left then, a program of ours ended."""
        limit = inf if job.limit is None else self._begin + job.limit
        due = inf if job.interval is None else self._begin + job.interval
        while True:
            ending = self._ended()
            now = time.monotonic()
            if ending is not None:
                return ending
            if self._attached and (self._ended_by or now >= limit):
                return Ending(ended_by=self._ended_by, elapsed=now - self._begin)
            if now >= min(limit, self._stronger_at):
                limit = inf
                self._end(signal.SIGTERM)
            if job.interval is not None and now >= due:
                tick(now - self._begin)
                due += job.interval * (1 + (now - due) // job.interval)
            self._wait(min(limit, due, self._stronger_at) - time.monotonic())

    def _ended(self) -> Ending | None:
        elapsed = time.monotonic() - self._begin
        if self._attached:
            gone = start_time(self._process) != self._begun_ticks
            return Ending(ended_by=self._ended_by, elapsed=elapsed) if gone else None
        ended, status = os.waitpid(self._process, os.WNOHANG)
        if not ended:
            return None
        late = signal.sigtimedwait(_awaited(), 0)  # what ended the program may reach us after its end
        self._ended_by = self._ended_by or (late.si_signo if late else 0)
        code = os.waitstatus_to_exitcode(status)
        how = {"status": code} if code >= 0 else {"signal": -code}
        return Ending(ended_by=self._ended_by, elapsed=elapsed, **how)

    def _wait(self, seconds: float) -> None:
        """Wait for a signal, so long at most, and pass it on where the program has not got it itself."""
        poll = POLL_OTHER if self._attached else POLL_CHILD
        taken = signal.sigtimedwait(_awaited() | {signal.SIGCHLD}, min(max(seconds, 0.0), poll))
        if taken is None or taken.si_signo == signal.SIGCHLD:
            return
        again, self._ended_by = bool(self._ended_by), self._ended_by or taken.si_signo
        # si_code is at most 0 where a process sent the signal (sigaction(2)); terminals send it from within the kernel
        if not self._attached and (again or taken.si_code <= 0):
            self._end(taken.si_signo)
        else:
            self._strength = 1
            self._stronger_at = time.monotonic() + GRACE

    def _end(self, first: int) -> None:
        """Send the program the next stronger signal: as we got it, then to terminate, then to kill."""
        os.kill(self._process, (first, signal.SIGTERM, signal.SIGKILL)[min(self._strength, 2)])
        self._strength += 1
        self._stronger_at = time.monotonic() + GRACE


def start_time(process: int) -> str | None:
    """When it began, in the kernel's ticks, as /proc has it: another process of the same number differs. None: it has
    ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] in "ZX" and len(threads_of(process)) < 2:  # the first thread may end before the others
        return None
    return fields[19]


def threads_of(process: int) -> tuple[int, ...]:
    """Numbers of the threads of a process; none where it has ended."""
    try:
        return tuple(sorted(int(entry.name) for entry in Path(f"/proc/{process}/task").iterdir()))
    except OSError:
        return ()
