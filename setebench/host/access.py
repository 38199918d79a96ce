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
    """Which privileged sources this process may read.

    `pagemap` is "frames" where it shows physical frame numbers and "hidden" where it shows zeros instead.
    `machine_code`: memory that this process has written may be made executable.
    """

    perf_event_paranoid: int | None = None
    pmu: bool | None = None
    msr: Literal["readable", "unreadable", "absent"] | None = None
    pagemap: Literal["frames", "hidden", "unreadable", "absent"] | None = None
    machine_code: bool | None = None


def read_access(tree: Tree, cpu: int) -> Access:
    """What this process may read, trying the MSR device of `cpu`. Reading an MSR or a pagemap entry changes nothing."""
    devices = tree.names("sys/bus/event_source/devices", r"cpu|cpu_core|cpu_atom")
    return Access(
        perf_event_paranoid=tree.value("proc/sys/kernel/perf_event_paranoid", parse_number),
        pmu=None if devices is None else bool(devices),
        msr=_msr(tree, cpu),
        pagemap=_pagemap(tree),
        machine_code=_machine_code() if tree.root.resolve() == Path("/") else None,
    )


def _read_at(path: Path, offset: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, 8, offset)
    finally:
        os.close(descriptor)


TSC_MSR = 0x10
"""The time-stamp counter: an MSR that every x86-64 CPU has, and reading it changes nothing."""


def _msr(tree: Tree, cpu: int) -> Literal["readable", "unreadable", "absent"] | None:
    if tree.exists("dev/null") is None:
        return None
    try:
        return "readable" if len(_read_at(tree.root / f"dev/cpu/{cpu}/msr", TSC_MSR)) == 8 else "unreadable"
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


def _pagemap(tree: Tree) -> Literal["frames", "hidden", "unreadable", "absent"] | None:
    """Finds a page of this process; a recorded tree can't hold that, so there it is unknown."""
    if tree.root.resolve() != Path("/"):
        return None
    page = ctypes.create_string_buffer(b"touched, so that the page is there")
    try:
        entry = _read_at(tree.root / "proc/self/pagemap", ctypes.addressof(page) // mmap.PAGESIZE * 8)
    except FileNotFoundError:
        return "absent"
    except OSError:
        return "unreadable"
    frame = int.from_bytes(entry, "little") & ((1 << 55) - 1)
    return "frames" if frame else "hidden"
