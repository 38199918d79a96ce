"""Counting one run of a program, from its first instruction to its end.

A child of ours waits at a pipe. What is opened for it in the meantime with `enable_on_exec` begins to count as the
kernel replaces it by the program, so nothing of ours is counted and nothing of the program is missed. It has our
standard input, output and error, working directory, environment, process group and limits, and the signals as we were
given them.

Signals are blocked and waited for, so that none comes at a bad time, and the kernel says of each whether it sent it
itself: Ctrl-C on a terminal reaches the program as well as us, `kill` reaches us alone and is passed on.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, NoReturn, Protocol

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


class Held:
    """A program that waits for its exec, as process `process`. A context at whose end it is ended unless it was
    released."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], mask: set[int]) -> None:
        """A child that becomes `command` when it is released, with these blocked signals."""
        self._program = command[0]
        waits, self._go = os.pipe()
        self._failure, failure = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(self._go)
            _become(command, environment, mask, (waits, failure))
        os.close(waits)
        os.close(failure)
        self._waits = True

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        if self._waits:
            self._ended()
            os.waitpid(self.process, 0)

    def release(self) -> None:
        """Let the program begin. Raises `NotStarted`; then the process is gone."""
        with suppress(BrokenPipeError):
            os.write(self._go, b"x")
        if failure := self._ended():
            os.waitpid(self.process, 0)
            known, number = repr(self._program), int(failure)
            if number in (errno.ENOENT, errno.ENOTDIR):
                raise NotStarted(f"the program {known} was not found: there is no such file, or not in PATH", NOT_FOUND)
            raise NotStarted(f"{known} can't be executed: {os.strerror(number)}", NOT_EXECUTABLE)

    def _ended(self) -> bytes:
        """What the child says before it is gone, nothing at an exec; one that still waits ends without."""
        self._waits = False
        os.close(self._go)
        with os.fdopen(self._failure, "rb") as said:
            return said.read()


def gets_other_rights(program: str, environment: Mapping[str, str]) -> bool:
    """Whether `program` runs with another user's or group's rights, or may not be read: at its exec the kernel removes
    all events of others from it (fs/exec.c, `begin_new_exec`), which then read what was counted in the microseconds
    before. False for what can't be found."""
    path = shutil.which(program, path=environment.get("PATH"))
    if path is None:
        return False
    file = os.stat(path)
    user = file.st_mode & stat.S_ISUID and file.st_uid != os.geteuid()
    group = file.st_mode & stat.S_ISGID and file.st_gid != os.getegid()
    return bool(user or group or not os.access(path, os.R_OK))


def _become(command: Sequence[str], environment: Mapping[str, str], mask: set[int], pipes: tuple[int, int]) -> NoReturn:
    """Nothing that runs here may write to what the parent has buffered, or run its exit handlers. Signals are as they
    were before Python changed some; a handler of ours would run in place of the program's end."""
    waits, failure = pipes
    number = errno.EINVAL
    try:
        if os.read(waits, 1):
            for each in signal.valid_signals():
                if each in _CHANGED_BY_PYTHON or callable(signal.getsignal(each)):
                    signal.signal(each, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(command[0], list(command), dict(environment))
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None) or number
    finally:
        with suppress(OSError):
            os.write(failure, str(number).encode())
        os._exit(NOT_FOUND)


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
            Held(command, environment, mask) as held,
            Counters(job.wanted, situation, held.process, Flag.INHERIT | Flag.ENABLE_ON_EXEC) as counters,
        ):
            if len(counters.failed) == len(job.wanted):
                names = ", ".join(each.name for each in job.wanted[:6])
                raise UnsupportedError(f"{names} can't be counted here: {counters.failed[job.wanted[0].name].reason}")
            if gets_other_rights(command[0], environment):
                raise UnsupportedError(OTHER_RIGHTS.format(command[0]))
            regions.offer(counters)
            for each in observers:
                each.open(held.process, counters)
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
            held.release()
            ending = _until_end(held.process, begin, job, tick)
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
