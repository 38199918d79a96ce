"""Waiting for a program while reading its counters now and then, and for the signals that a user ends it by.

Signals are blocked and waited for, so that none comes at a bad moment, and the kernel says of each whether it sent it
itself: Ctrl-C on a terminal reaches the program as well as us, `kill` reaches us alone and is passed on.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

import msgspec

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals by which a user ends what runs."""

_SENT_BY_A_PROCESS = 0
"""`si_code` is at most 0 where a process sent the signal (sigaction(2)); terminals send it from within the kernel."""


class Params(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds."""

    grace: float = 5.0  # between a signal that should end a program and the next stronger one
    poll_child: float = 0.5  # a child's end is signalled, unless a thread of a program that embeds us takes the signal
    poll_other: float = 0.05  # that of another process isn't; asking takes about 20 microseconds


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended: `status` of a program that exited, `signal` of one that was killed, neither of a process that was
    no child of ours or that went on. `asked`: the signal by which we were asked to end, 0 if we were not."""

    status: int | None = None
    signal: int | None = None
    asked: int = 0
    elapsed: float = 0.0


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
        self._asked = 0
        self._strength = 0
        self._stronger_at = inf

    def until_end(self, seconds: float | None, interval: float | None, tick: Callable[[float], None]) -> Ending:
        """Wait for the end of the process, for `seconds` if given, or until we are asked to end. `tick` is called with
        the seconds since the begin each `interval`. A process that goes on is left then, a program of ours ended."""
        limit = inf if seconds is None else self._begin + seconds
        due = inf if interval is None else self._begin + interval
        while True:
            ending = self._ended()
            now = time.monotonic()
            if ending is not None:
                return ending
            if self._attached and (self._asked or now >= limit):
                return Ending(asked=self._asked, elapsed=now - self._begin)
            if now >= min(limit, self._stronger_at):
                limit = inf
                self._end(signal.SIGTERM)
            if interval is not None and now >= due:
                tick(now - self._begin)
                due += interval * (1 + (now - due) // interval)
            self._wait(min(limit, due, self._stronger_at) - time.monotonic())

    def _ended(self) -> Ending | None:
        elapsed = time.monotonic() - self._begin
        if self._attached:
            gone = start_time(self._process) != self._begun_ticks
            return Ending(asked=self._asked, elapsed=elapsed) if gone else None
        ended, status = os.waitpid(self._process, os.WNOHANG)
        if not ended:
            return None
        late = signal.sigtimedwait(_awaited(), 0)  # what ended the program may reach us after its end
        self._asked = self._asked or (late.si_signo if late else 0)
        code = os.waitstatus_to_exitcode(status)
        how = {"status": code} if code >= 0 else {"signal": -code}
        return Ending(asked=self._asked, elapsed=elapsed, **how)

    def _wait(self, seconds: float) -> None:
        """Wait for a signal, so long at most, and do what it asks for."""
        poll = Params().poll_other if self._attached else Params().poll_child
        taken = signal.sigtimedwait(_awaited() | {signal.SIGCHLD}, min(max(seconds, 0.0), poll))
        if taken is None or taken.si_signo == signal.SIGCHLD:
            return
        again, self._asked = bool(self._asked), self._asked or taken.si_signo
        if not self._attached and (again or taken.si_code <= _SENT_BY_A_PROCESS):
            self._end(taken.si_signo)
        else:  # the program got this one, too
            self._strength = 1
            self._stronger_at = time.monotonic() + Params().grace

    def _end(self, first: int) -> None:
        """Send the program the next stronger signal: as we got it, then to terminate, then to kill."""
        os.kill(self._process, (first, signal.SIGTERM, signal.SIGKILL)[min(self._strength, 2)])
        self._strength += 1
        self._stronger_at = time.monotonic() + Params().grace


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
