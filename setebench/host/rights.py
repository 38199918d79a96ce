"""What the system says of counting events, and what this process may read and run. Timing needs no privilege; the
doctor lists which there are."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path
from typing import Literal

import msgspec

from setebench.host.tree import Tree

DEVICES = "sys/bus/event_source/devices"
CORE_PMUS = ("cpu", "cpu_core", "cpu_atom")
"""Names of PMUs of the cores: one, or one per kind of core."""
CAP_SYS_ADMIN, CAP_PERFMON = 21, 38
"""Bits of the capability sets: either lifts perf_event_paranoid (CAP_PERFMON since Linux 5.8)."""


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """None: the system does not say.

    `pmus`: every PMU that the kernel drives, its own events included.
    `nmi_watchdog`: whether it holds a counter of each CPU. `privileged`: the right to count everything, whatever
    perf_event_paranoid says. `machine_code`: memory that this process has written may be made executable."""

    pmus: tuple[str, ...] | None = None
    nmi_watchdog: bool | None = None
    privileged: bool | None = None
    perf_event_paranoid: int | None = None
    msr: Literal["readable", "unreadable", "absent"] | None = None
    machine_code: bool | None = None

    @property
    def core(self) -> tuple[str, ...]:
        """PMUs of the cores."""
        return tuple(name for name in self.pmus or () if name in CORE_PMUS)


def read_rights(tree: Tree, cpu: int) -> Rights:
    """What the files below the tree's root say, and whether the MSR device of `cpu` may be opened, which changes
    nothing."""
    names = tree.names(DEVICES, r"[A-Za-z0-9_.-]{1,64}")
    watchdog = tree.value("proc/sys/kernel/nmi_watchdog", int)
    rights = tree.field("proc/self/status", "CapEff", lambda text: int(text, 16))
    return Rights(
        pmus=None if names is None else tuple(names),
        nmi_watchdog=None if watchdog is None else bool(watchdog),
        privileged=None if rights is None else bool(rights & (1 << CAP_SYS_ADMIN | 1 << CAP_PERFMON)),
        perf_event_paranoid=tree.value("proc/sys/kernel/perf_event_paranoid", int),
        msr=_msr(tree.root / f"dev/cpu/{cpu}/msr") if tree.exists("dev") else None,
        machine_code=_machine_code() if tree.root.resolve() == Path("/") else None,
    )


def _msr(device: Path) -> Literal["readable", "unreadable", "absent"]:
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_CLOEXEC))  # which the kernel refuses to those who may not read
        return "readable"
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
