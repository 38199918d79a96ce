"""Where threads run: pinning, and the CPUs this process may use."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from setebench.errors import UnsupportedError, UsageError
from setebench.host.tree import Tree, parse_cpu_list

_lock = threading.Lock()
_held: dict[int, tuple[set[int], int]] = {}
"""Threads that machines keep pinned: the CPUs that each could use before, and how many machines keep it."""


def allowed_cpus() -> tuple[int, ...]:
    """CPUs that the calling thread may run on, were it not for machines that keep it, or the thread that started it,
    pinned."""
    with _lock:
        return tuple(sorted(own_cpus().union(*(before for before, _ in _held.values()))))


def own_cpus() -> set[int]:
    """CPUs that the calling thread may run on now. Raises `UnsupportedError` where nobody says."""
    try:
        return os.sched_getaffinity(0)
    except OSError as error:
        said = Tree(Path("/")).fields("proc/thread-self/status").get("Cpus_allowed_list")
        if not said:
            raise UnsupportedError("its CPUs aren't known: allow sched_getaffinity, or mount /proc") from error
        return set(parse_cpu_list(said))


def _pin(cpu: int) -> set[int]:
    """Keep the calling thread on a CPU; where it could run before. Raises `UnsupportedError` where that is refused."""
    before = own_cpus()
    try:
        if before != {cpu}:
            os.sched_setaffinity(0, {cpu})
        return before
    except OSError as error:
        how = "allow it (SystemCallFilter=, snap: process-control), or leave it one CPU (CPUAffinity=, taskset)"
        raise UnsupportedError(f"no thread may be pinned to CPU {cpu}: sched_setaffinity is refused; {how}") from error


def _unpin(cpus: set[int], thread: int = 0) -> None:
    """Let a thread run on these CPUs again. Where that is refused, or it has ended, it stays where it is: what it has
    measured must not be lost for that."""
    with suppress(OSError):
        os.sched_setaffinity(0 if thread == threading.get_native_id() else thread, cpus)


def hold(cpu: int) -> int:
    """Pin the calling thread to `cpu` until as many calls of `let_go` with the returned thread."""
    thread = threading.get_native_id()
    with _lock:
        now = _pin(cpu)
        before, holders = _held.get(thread, (now, 0))
        _held[thread] = (before, holders + 1)
    return thread


def let_go(thread: int) -> None:
    """Undo one `hold`; after the last one the thread may run where it could before. Any thread may call this."""
    with _lock:
        before, holders = _held.pop(thread)
        if holders > 1:
            _held[thread] = (before, holders - 1)
            return
    _unpin(before, thread)


def choose_cpu(wanted: int | None, allowed: tuple[int, ...]) -> int:
    """The CPU to measure on: the wanted one, else the last allowed one, which interrupts use least.

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
    before = _pin(cpu)
    try:
        yield
    finally:
        if before != {cpu}:
            _unpin(before)
