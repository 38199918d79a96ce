"""The lock that admits one measurement at a time on a computer, whoever begins it.

It is a lock (flock) on a folder of the kernel's, which every user may open and none may change: nothing has to be
created, is left behind, or can be put in its place.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from setebench.errors import SetebenchError

PLACE = "/sys/devices/system/cpu"
NO_WAIT = "SETEBENCH_NO_WAIT"
"""Where this environment variable is set, a second measurement is refused instead of waiting."""

HOLDER = "SETEBENCH_MEASURING"
"""The environment variable that holds the number of the process that measures: those that it starts don't wait for
it."""


@dataclass
class _Hold:
    """How often this process holds the lock, and by which descriptor; by none where locking is not possible."""

    times: int = 0
    descriptor: int | None = None


_guard = threading.Lock()
_hold = _Hold()


def acquire(place: str = PLACE) -> None:
    """Wait until no other process measures, and say so on stderr in one line; a process may hold the lock repeatedly.

    Where the system allows no lock, it goes on without and says that. Raises `SetebenchError` where another process
    measures and `NO_WAIT` is set."""
    with _guard:
        if os.environ.get(HOLDER, own := str(os.getpid())) != own:
            return
        if not _hold.times:
            _hold.descriptor = _locked(place)
            os.environ[HOLDER] = own
        _hold.times += 1


def release() -> None:
    """Undo one `acquire`."""
    with _guard:
        if os.environ.get(HOLDER) != str(os.getpid()):
            return
        _hold.times -= 1
        if not _hold.times:
            del os.environ[HOLDER]
            if _hold.descriptor is not None:
                os.close(_hold.descriptor)


@contextmanager
def alone() -> Iterator[None]:
    """Hold the lock within the context."""
    acquire()
    try:
        yield
    finally:
        release()


def _locked(place: str) -> int | None:
    try:
        with ExitStack() as failing:
            descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
            failing.callback(os.close, descriptor)
            _lock(descriptor)
            failing.pop_all()
        return descriptor
    except OSError as error:
        _say(f"other measurements can't be kept away ({place}: {error.strerror}); one of them would disturb this one")
        return None


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        if os.environ.get(NO_WAIT):
            raise SetebenchError(
                "another measurement is running on this machine; try again when it has ended"
            ) from error
        _say("waiting for the end of another measurement on this machine (--no-wait refuses instead)")
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _say(line: str) -> None:
    if sys.stderr is not None:
        print(line, file=sys.stderr)
