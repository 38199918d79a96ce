"""Where threads run: pinning, and the CPUs this process may use."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from setebench.errors import UnsupportedError, UsageError
from setebench.host.tree import Tree, parse_cpu_list


@cache
def allowed_cpus() -> tuple[int, ...]:
    """CPUs that this process may use, as it found them at the first call: later a machine may keep a thread pinned.
    Raises `UnsupportedError` where nobody says."""
    return tuple(sorted(own_cpus()))


def own_cpus() -> set[int]:
    """CPUs that the calling thread may run on now. Raises `UnsupportedError` where nobody says."""
    try:
        return os.sched_getaffinity(0)
    except OSError as error:
        said = Tree(Path("/")).fields("proc/thread-self/status").get("Cpus_allowed_list")
        if not said:
            raise UnsupportedError("its CPUs aren't known: allow sched_getaffinity, or mount /proc") from error
        return set(parse_cpu_list(said))


def pin(cpu: int) -> set[int]:
    """Keep the calling thread on a CPU; where it could run before. Raises `UnsupportedError` where that is refused."""
    before = own_cpus()
    try:
        if before != {cpu}:
            os.sched_setaffinity(0, {cpu})
        return before
    except OSError as error:
        how = "allow it (SystemCallFilter=, snap: process-control), or leave it one CPU (CPUAffinity=, taskset)"
        raise UnsupportedError(f"no thread may be pinned to CPU {cpu}: sched_setaffinity is refused; {how}") from error


def unpin(cpus: set[int], thread: int = 0) -> None:
    """Let a thread run on these CPUs again. Where that is refused, or it has ended, it stays where it is: what it has
    measured must not be lost for that."""
    with suppress(OSError):
        os.sched_setaffinity(0 if thread == threading.get_native_id() else thread, cpus)


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
    before = pin(cpu)
    try:
        yield
    finally:
        if before != {cpu}:
            unpin(before)
