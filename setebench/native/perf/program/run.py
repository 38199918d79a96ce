"""Counting one run of a program, from its first instruction to its end.

A shell, a child of ours, stops itself. What is opened for it in the meantime with `enable_on_exec` begins to count as
the kernel replaces it by the program, so nothing of ours is counted and nothing of the program is missed. It has our
standard input, output and error, working directory, environment, process group and limits, and the signals as we were
given them.

Signals are blocked and waited for, so that none comes at a bad time, and the kernel says of each whether it sent it
itself: Ctrl-C on a terminal reaches the program as well as us, `kill` reaches us alone and is passed on.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, Protocol

import msgspec

from setebench.counters.counted import Event, Interval, Run, difference
from setebench.counters.protocol import Count
from setebench.errors import SetebenchError, UnsupportedError
from setebench.native.perf.attributes import Flag
from setebench.native.perf.encode import Wanted
from setebench.native.perf.messages import Situation
from setebench.native.perf.opened import Counters
from setebench.native.perf.program.region_file import VARIABLE, RegionFile

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Statuses that a shell gives to programs that it can't start (POSIX, Shell Command Language, 2.8.2)."""

_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that a Python process ignores, which its children would inherit."""


class NotStarted(SetebenchError):
    """The program could not be started; `status` is what a shell would return."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@contextmanager
def _held(command: Sequence[str], environment: Mapping[str, str], mask: set[int]) -> Iterator[int]:
    """A process that becomes `command` when it gets SIGCONT, with these signals blocked; killed where the context ends
    with an error before it has ended.

    Raises `NotStarted` for what can't be started, `UnsupportedError` for a program that can't be counted."""
    known, path = repr(command[0]), shutil.which(command[0], path=environment.get("PATH"))
    if path is None and os.path.exists(command[0]) and os.sep in command[0]:
        raise NotStarted(f"{known} can't be executed: it is no program, or not yours to run", NOT_EXECUTABLE)
    if path is None:
        raise NotStarted(f"the program {known} was not found: there is no such file, or not in PATH", NOT_FOUND)
    if _gets_other_rights(path):
        raise UnsupportedError(OTHER_RIGHTS.format(command[0]))
    try:
        shell = ["sh", "-c", 'kill -STOP $$; exec "$@"', "sh", *command]
        process = os.posix_spawn("/bin/sh", shell, environment, setsigmask=mask, setsigdef=_CHANGED_BY_PYTHON)
    except (OSError, ValueError) as error:
        raise NotStarted(f"{known} can't be executed: {error}", NOT_EXECUTABLE) from error
    try:
        os.waitpid(process, os.WUNTRACED)
        yield process
    except BaseException:
        with suppress(ChildProcessError):  # it has ended
            if os.waitpid(process, os.WNOHANG) == (0, 0):
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
        raise


def _gets_other_rights(path: str) -> bool:
    """Whether a program runs with another user's or group's rights, or may not be read: at its exec the kernel removes
    all events of others from it (fs/exec.c, `begin_new_exec`), which then read what was counted in the microseconds
    before."""
    file = os.stat(path)
    user = file.st_mode & stat.S_ISUID and file.st_uid != os.geteuid()
    group = file.st_mode & stat.S_ISGID and file.st_gid != os.getegid()
    return bool(user or group or not os.access(path, os.R_OK))


# -- counting it ------------------------------------------------------------------------------------------------------


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals by which a user ends what runs."""
POLL = 0.5
"""Seconds: a child's end is signalled, unless a thread of a program that embeds us takes the signal."""
OTHER_RIGHTS = "{!r} runs with other rights than yours, and the kernel counts no such program: count it as its own user"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be counted, and for how long, in seconds: `interval` between intermediate reads, `limit` of the whole;
    None for none."""

    wanted: tuple[Wanted, ...]
    interval: float | None = None
    limit: float | None = None


class Observer(Protocol):
    """What else observes a program while it is counted."""

    def open(self, process: int, counters: Counters) -> None:
        """Nothing was counted yet; the program waits for its first instruction."""
        ...

    def tick(self) -> None:
        """An interval has ended, and was read."""
        ...


def run_program(
    situation: Situation, job: Job, command: Sequence[str], observers: Sequence[Observer] = ()
) -> tuple[Run, list[Event]]:
    """Start `command`, count it and everything that it starts, until it ends or a signal says to end it.

    Raises `NotStarted` for what can't be started, `UnsupportedError` where nothing wanted can be counted."""
    # the child gets the file's name with its environment, before anything can be opened for the child
    with _blocked_signals() as mask, RegionFile(situation) as regions:
        environment = {**os.environ, VARIABLE: regions.path}
        with (
            _held(command, environment, mask) as process,
            Counters(job.wanted, situation, process, Flag.INHERIT | Flag.ENABLE_ON_EXEC) as counters,
        ):
            if len(counters.failed) == len(job.wanted):
                names = ", ".join(each.name for each in job.wanted[:6])
                raise UnsupportedError(f"{names} can't be counted here: {counters.failed[job.wanted[0].name].reason}")
            regions.offer(counters)
            for each in observers:
                each.open(process, counters)
            rows: list[Interval] = []
            before: dict[str, Count] = {}

            def tick(now: float) -> dict[str, Count]:
                """An interval ends `now`, in seconds since the begin."""
                counts = counters.read()
                differences = {name: difference(count, before.get(name)) for name, count in counts.items()}
                rows.append(Interval(begin=rows[-1].end if rows else 0.0, end=now, counts=differences))
                before.update(counts)
                for each in observers:
                    each.tick()
                return counts

            counters.begin()
            begin = time.monotonic()
            os.kill(process, signal.SIGCONT)
            ending = _until_end(process, begin, job, tick)
            counts = counters.read() if job.interval is None else tick(ending["elapsed"])
            run = Run(counts=counts, intervals=rows, regions=regions.regions(), notes=regions.notes(), **ending)
            return run, [
                Event(name=e.name, event=e.event, unit=e.unit, scope=e.scope, user_only=e.name in counters.user_only)
                for e in counters.wanted
            ]


@contextmanager
def _blocked_signals() -> Iterator[set[int]]:
    """Block what `_until_end` waits for, but for signals that our caller had us ignore; gives the mask that was."""
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


def _until_end(process: int, begin: float, job: Job, tick: Callable[[float], object]) -> dict[str, Any]:
    """Wait for the end of a child of ours, which is terminated at the job's limit, gets the signal by which a user
    wants it to end, where it hasn't got that itself, and is killed by the next one. `tick` is called with the seconds
    since the `begin` each interval. Gives `elapsed` seconds, `status` of a program that exited, `signal` of one that
    was killed, and the signal by which a user `ended_by`, 0 if none did."""
    limit = inf if job.limit is None else begin + job.limit
    due = inf if job.interval is None else begin + job.interval
    ended_by = 0
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        now = time.monotonic()
        if ended:
            late = signal.sigtimedwait(_awaited(), 0)  # what ended the program may reach us after its end
            code, by = os.waitstatus_to_exitcode(status), ended_by or (late.si_signo if late else 0)
            how = {"status": code, "signal": None} if code >= 0 else {"status": None, "signal": -code}
            return {"elapsed": now - begin, "ended_by": by, **how}
        if now >= limit:
            limit = inf
            os.kill(process, signal.SIGTERM)
        if job.interval is not None and now >= due:
            tick(now - begin)
            due += job.interval * (1 + (now - due) // job.interval)
        left = min(max(min(limit, due) - time.monotonic(), 0.0), POLL)
        taken = signal.sigtimedwait(_awaited() | {signal.SIGCHLD}, left)
        if taken is not None and taken.si_signo != signal.SIGCHLD:
            # si_code is at most 0 where a process sent it (sigaction(2)); terminals send it from within the kernel
            if ended_by or taken.si_code <= 0:
                os.kill(process, signal.SIGKILL if ended_by else taken.si_signo)
            ended_by = ended_by or taken.si_signo
