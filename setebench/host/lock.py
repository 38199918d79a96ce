"""The lock that admits one measurement at a time on a computer, whoever begins it: on a folder of the kernel's, which
every user may open and none may change, so that nothing is created, left behind, or put in its place."""

from __future__ import annotations

import fcntl
import os
import sys
import threading

from setebench.errors import SetebenchError

PLACE = "/sys/devices/system/cpu"
NO_WAIT = "SETEBENCH_NO_WAIT"
"""Where this environment variable is set, a second measurement is refused instead of waiting."""

HOLDER = "SETEBENCH_MEASURING"
"""The environment variable with the number of the process that measures; what it starts does not wait for it."""

_guard = threading.Lock()
_held: list[int] = []
"""The descriptor by which this process holds the lock, as often as it does; -1 where locking isn't possible."""


def acquire(place: str = PLACE) -> None:
    """Wait until no other process measures, and say so on stderr in one line; a process may hold the lock repeatedly.

    Where the system allows no lock, it goes on without and says that. Raises `SetebenchError` where another process
    measures and `NO_WAIT` is set."""
    with _guard:
        if os.environ.get(HOLDER, own := str(os.getpid())) == own:
            _held.append(_held[0] if _held else _locked(place))
            os.environ[HOLDER] = own


def release() -> None:
    """Undo one `acquire`."""
    with _guard:
        if os.environ.get(HOLDER) == str(os.getpid()):
            descriptor = _held.pop()
            if not _held:
                del os.environ[HOLDER]
                os.closerange(descriptor, descriptor + 1)


def _locked(place: str) -> int:
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if NO_WAIT in os.environ:
                raise SetebenchError("another measurement is running on this machine; try again later") from error
            _say("waiting for the end of another measurement on this machine (--no-wait refuses instead)")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        return descriptor
    except OSError as error:
        _say(f"other measurements can't be kept away ({place}: {error.strerror}); one of them would disturb this one")
        return -1


def _say(line: str) -> None:
    if sys.stderr is not None:
        print(line, file=sys.stderr)
