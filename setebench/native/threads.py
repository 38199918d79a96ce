"""Where threads run: pinning, and the CPUs this process may use."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from setebench.errors import UsageError

_lock = threading.Lock()
_held: dict[int, tuple[set[int], int]] = {}
"""Threads that machines keep pinned: the CPUs that each could use before, and how many machines keep it."""


def allowed_cpus() -> tuple[int, ...]:
    """CPUs that the calling thread may run on, were it not for machines that keep it, or the thread that started it,
    pinned."""
    with _lock:
        return tuple(sorted(os.sched_getaffinity(0).union(*(before for before, _ in _held.values()))))


def hold(cpu: int) -> int:
    """Pin the calling thread to `cpu` until as many calls of `let_go` with the returned thread."""
    thread = threading.get_native_id()
    with _lock:
        before, holders = _held.get(thread, (os.sched_getaffinity(0), 0))
        os.sched_setaffinity(0, {cpu})
        _held[thread] = (before, holders + 1)
    return thread


def let_go(thread: int) -> None:
    """Undo one `hold`; after the last one the thread may run where it could before. Any thread may call this."""
    with _lock:
        before, holders = _held.pop(thread)
        if holders > 1:
            _held[thread] = (before, holders - 1)
            return
        with suppress(ProcessLookupError):  # the thread has ended
            os.sched_setaffinity(thread, before)


def choose_cpu(wanted: int | None, allowed: tuple[int, ...]) -> int:
    """The CPU to measure on: the one asked for, else the last allowed one, which interrupts use least.

    Raises `UsageError` for a CPU that is offline or not allowed."""
    if wanted is None:
        return allowed[-1]
    if wanted not in allowed:
        listed = ", ".join(str(cpu) for cpu in allowed)
        raise UsageError(f"CPU {wanted} is offline or not allowed to this process; allowed are {listed}")
    return wanted


@contextmanager
def pinned(cpu: int) -> Iterator[None]:
    """Keep the calling thread on `cpu`; afterwards it may run where it could before."""
    before = os.sched_getaffinity(0)
    if before != {cpu}:
        os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        if before != {cpu}:
            os.sched_setaffinity(0, before)
