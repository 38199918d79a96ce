"""Which privileged sources of the system this process may read. None is needed; the doctor lists which there are."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path
from typing import Literal

import msgspec

from setebench.host.tree import Tree, parse_number


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Which privileged sources this process may read. `machine_code`: memory that it has written may be made
    executable."""

    perf_event_paranoid: int | None = None
    msr: Literal["readable", "unreadable", "absent"] | None = None
    machine_code: bool | None = None


def read_access(tree: Tree, cpu: int) -> Access:
    """What this process may read, trying the MSR device of `cpu`. Reading an MSR changes nothing."""
    return Access(
        perf_event_paranoid=tree.value("proc/sys/kernel/perf_event_paranoid", parse_number),
        msr=_msr(tree, cpu),
        machine_code=_machine_code() if tree.root.resolve() == Path("/") else None,
    )


TSC_MSR = 0x10
"""The time-stamp counter: an MSR that every x86-64 CPU has, and reading it changes nothing."""


def _msr(tree: Tree, cpu: int) -> Literal["readable", "unreadable", "absent"] | None:
    if tree.exists("dev/null") is None:
        return None
    try:
        descriptor = os.open(tree.root / f"dev/cpu/{cpu}/msr", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0):
            return "readable" if len(os.pread(descriptor, 8, TSC_MSR)) == 8 else "unreadable"
    except (FileNotFoundError, NotADirectoryError):
        return "absent"
    except OSError:
        return "unreadable"


def _machine_code() -> bool:
    memory = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    first = ctypes.c_char.from_buffer(memory)  # written to, as code would be; what was not may be allowed
    first.value = b"\xc3"
    where = ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(mmap.PAGESIZE)
    return not ctypes.CDLL(None).mprotect(*where, mmap.PROT_READ | mmap.PROT_EXEC)
