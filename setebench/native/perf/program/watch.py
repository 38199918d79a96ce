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
from pathlib import Path

import msgspec

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals by which a user ends what runs."""

FOREVER = float("inf")

_SENT_BY_A_PROCESS = 0
"""`si_code` is at most 0 where a process sent the signal (sigaction(2)); terminals send it from within the kernel."""


class Params(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds. `grace`: how long a program may go on after a signal that should end it, before the next
    stronger one; long enough to write what it has, short enough to wait for. `poll_child`, `poll_other`: how often a
    child of ours, and another process, are asked whether they still run, at about 20 microseconds each. The end of a
    child is signalled, unless another thread of a program that embeds us takes the signal; that of others isn't."""

    grace: float = 5.0
    poll_child: float = 0.5
    poll_other: float = 0.05


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
        _drop_pending(awaited)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _awaited() -> set[signal.Signals]:
    return {each for each in ENDING if signal.getsignal(each) is not signal.SIG_IGN}


def _drop_pending(awaited: set[signal.Signals]) -> None:
    """Signals that came after the end were meant for what has ended."""
    while signal.sigtimedwait(awaited, 0):
        pass


class Watch:
    """Waits for process `process`, a child of ours or (`attached`) any other."""

    def __init__(self, process: int, *, attached: bool = False, params: Params | None = None) -> None:
        self._process = process
        self._attached = attached
        self._params = params or Params()
        self._begun_ticks = start_time(process) if attached else None
        self._begin = time.monotonic()
        self._asked = 0
        self._strength = 0
        self._stronger_at = self._limit = FOREVER

    def begin(self) -> None:
        """What is watched begins, or its counting does: seconds are counted from here."""
        self._begin = time.monotonic()

    def until_end(self, seconds: float | None, interval: float | None, tick: Callable[[float], None]) -> Ending:
        """Wait for the end of the process, for `seconds` if given, or until we are asked to end. `tick` is called with
        the seconds since the begin each `interval`."""
        self._limit = FOREVER if seconds is None else self._begin + seconds
        due = FOREVER if interval is None else self._begin + interval
        while True:
            ending = self._ended() or self._left()
            if ending is not None:
                return ending
            now = time.monotonic()
            if interval is not None and now >= due:
                tick(now - self._begin)
                due += interval * (1 + (now - due) // interval)
            self._heed(min(self._limit, due, self._stronger_at) - time.monotonic())

    def _left(self) -> Ending | None:
        """Leave a process that goes on where the time is over or we were asked to end; end a program of ours then."""
        now = time.monotonic()
        if self._attached and (self._asked or now >= self._limit):
            return Ending(asked=self._asked, elapsed=now - self._begin)
        if now >= min(self._limit, self._stronger_at):
            self._limit = FOREVER
            self._end(signal.SIGTERM, now)
        return None

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
        return Ending(
            status=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            asked=self._asked,
            elapsed=elapsed,
        )

    def _heed(self, seconds: float) -> None:
        """Wait for a signal, so long at most, and do what it asks for."""
        poll = self._params.poll_other if self._attached else self._params.poll_child
        taken = signal.sigtimedwait(_awaited() | {signal.SIGCHLD}, min(max(seconds, 0.0), poll))
        if taken is None or taken.si_signo == signal.SIGCHLD:
            return
        again, self._asked = bool(self._asked), self._asked or taken.si_signo
        if not self._attached and (again or taken.si_code <= _SENT_BY_A_PROCESS):
            self._end(taken.si_signo, time.monotonic())
        else:  # the program got this one, too
            self._strength = 1
            self._stronger_at = time.monotonic() + self._params.grace

    def _end(self, first: int, now: float) -> None:
        """Send the program the next stronger signal: as we got it, then to terminate, then to kill."""
        steps = (first, signal.SIGTERM, signal.SIGKILL)
        os.kill(self._process, steps[min(self._strength, 2)])
        self._strength += 1
        self._stronger_at = now + self._params.grace


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
