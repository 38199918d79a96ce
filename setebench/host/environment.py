"""What the operating system says about the machine: for people, for comparing result files, for `setebench doctor`.

No scenario reads any of it. Everything is read, nothing is changed, and every reader takes a root directory, so that a
recorded tree of small files stands for its machine. None means unknown. Nothing kept here names the host, its user, an
address or a serial number: result files are made to be passed on.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from math import inf
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec

from setebench.host.processor import CPU, Processor, Topology, read_processor, read_topology
from setebench.host.tree import Tree, parse_cpu_list, parse_size, reading

# -- limits of control groups, under cgroup version 1 and 2 -----------------------------------------------------------
#
# Past a memory limit the kernel kills some process of the group. What counts is what all of them use, less page cache
# that nobody used lately, which the kernel takes back first. A quota is no share: when it is used up the process stands
# still for tens of milliseconds, in the middle of a timing.

Unlimited = Literal["unlimited"]
MOUNT = "sys/fs/cgroup"
NO_LIMIT_BYTES = 1 << 60  # version 1 writes "no memory limit" as a number near 2**63
MEMORY = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""The files of a group's limit and of its use, and the line of its statistics that counts page cache to be taken back,
of version 2 and of version 1."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """`cpu_quota` is in CPUs (0.5 is half of one); `memory_left_bytes` is what the groups may still take of the memory
    they are limited to; "unlimited" where groups were read and none limits."""

    cpu_quota: float | Unlimited | None = None
    memory_left_bytes: float | Unlimited | None = None


def read_limits(tree: Tree) -> Limits:
    """The narrowest limit of the groups that this process is in; None where the groups can't be read."""
    own = Tree(tree.root)
    quotas = [_quota(own, folder) for folder in _folders(own, "cpu")]
    memory = [_memory_left(own, folder) for folder in _folders(own, "memory")]
    if own.problems:  # reported without their paths: names of groups can name users and containers
        tree.problems.append(f"{MOUNT}: a limit can't be read or understood")
    return Limits(cpu_quota=_least(quotas), memory_left_bytes=_least(memory))


def _folders(tree: Tree, controller: str) -> list[str]:
    """The folders of this process's groups for a controller, and of those around them. Groups outside of the mount
    (with "..") are left out: their limits can't be read."""
    folders: list[str] = []
    for controllers, group in re.findall(r"^\d+:(.*?):/(.*)$", tree.text("proc/self/cgroup") or "", re.MULTILINE):
        mount = f"{MOUNT}/{controller}" if controllers else MOUNT  # version 2 has one tree for all
        mounted = tree.exists(mount if controllers else f"{MOUNT}/cgroup.controllers")
        path = PurePosixPath(group)
        if mounted and controller in (controllers or controller).split(",") and ".." not in path.parts:
            folders += [f"{mount}/{folder}" for folder in (path, *path.parents)]
    return folders


def _quota(tree: Tree, folder: str) -> float | None:
    """CPUs; infinity without a quota, None for one that is not understood."""
    texts = [tree.text(f"{folder}/{name}") for name in ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")]
    said = " ".join(filter(None, texts))
    return tree.parsed(folder, said, _parse_quota) if said else inf


def _parse_quota(text: str) -> float:
    """CPUs of "50000 100000" (microseconds of quota and period); infinity for "max" or a quota of -1."""
    quota, period = text.split()
    return inf if quota in ("max", "-1") else int(quota) / max(1, int(period))


def _memory_left(tree: Tree, folder: str) -> float | None:
    """Bytes that a group may still take; infinity without a limit, None for what is not understood."""
    for limiting, using, reclaimable in MEMORY:
        limit = tree.value(f"{folder}/{limiting}", lambda text: inf if text == "max" else int(text))
        if limit is None and tree.exists(f"{folder}/{limiting}"):
            return None
        if limit is not None and limit < NO_LIMIT_BYTES:
            cache = re.search(rf"^{reclaimable} (\d+)$", tree.text(f"{folder}/memory.stat") or "", re.MULTILINE)
            used = (tree.value(f"{folder}/{using}", int) or 0) - (int(cache[1]) if cache else 0)
            return float(max(0, limit - max(0, used)))
    return inf


def _least(limits: list[float | None]) -> float | Unlimited | None:
    """The smallest limit; None where there are none, or where one was not understood, which may be the smallest."""
    known = [limit for limit in limits if limit is not None]
    if not limits or len(known) < len(limits):
        return None
    return "unlimited" if min(known) == inf else float(min(known))


# -- rights -----------------------------------------------------------------------------------------------------------
#
# What the system says of counting events, and what this process may read and run. Timing needs no privilege; the doctor
# lists which there are.


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


# -- the whole --------------------------------------------------------------------------------------------------------


CLOCKSOURCE = "sys/devices/system/clocksource/clocksource0"


class Hypervisor(msgspec.Struct, frozen=True, kw_only=True):
    """Whether this is a guest, as far as the CPU flags and the system say, and under which hypervisor."""

    present: bool | None = None
    name: str | None = None


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory and pages. `transparent` is the mode of transparent huge pages: always, madvise or never; `huge_pages` are
    2 MiB pages that are reserved and free."""

    available_bytes: int | None = None
    locked_limit_bytes: int | Unlimited | None = None
    transparent: str | None = None
    huge_pages: int | None = None
    numa_nodes: tuple[int, ...] | None = None


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """Version number (a local suffix is dropped, it may name a user), the clock source in use, and what the kernel says
    of this process's own speculative store bypass; the governors of all CPUs' frequencies, and whether clocks above the
    nominal one are allowed. What else went on: the load average of the last minute, and the share of wanted CPU time
    since boot that the hypervisor gave to others."""

    version: str | None = None
    clocksource: str | None = None
    store_bypass: str | None = None
    governors: tuple[str, ...] | None = None
    boost: bool | None = None
    load: float | None = None
    stolen: float | None = None


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `unread` says which files were there and could not be read or understood."""

    cpu: Processor
    topology: Topology
    hypervisor: Hypervisor
    memory: Memory
    limits: Limits
    kernel: Kernel
    rights: Rights
    unread: tuple[str, ...] = ()


def read_environment(root: Path = Path("/")) -> Environment:
    """Read the environment of the machine whose system files lie below `root`.

    Raises nothing for files that are missing, forbidden or malformed: what they would have said is None.
    """
    tree = Tree(root)
    processor = read_processor(tree)
    topology = read_topology(tree)
    return Environment(
        cpu=processor,
        topology=topology,
        hypervisor=_hypervisor(tree, processor.flags),
        memory=_memory(tree),
        limits=read_limits(tree),
        kernel=_kernel(tree),
        rights=read_rights(tree, (topology.allowed or topology.online or (0,))[0]),
        unread=tuple(dict.fromkeys(tree.problems)),
    )


def _kernel(tree: Tree) -> Kernel:
    governors = [tree.text(f"{CPU}/{name}/cpufreq/scaling_governor") for name in tree.names(CPU, r"cpu\d+") or ()]
    boost = tree.value(f"{CPU}/cpufreq/boost", int)
    no_turbo = tree.value(f"{CPU}/intel_pstate/no_turbo", int) if boost is None else not boost
    return Kernel(
        version=tree.value("proc/sys/kernel/osrelease", reading(r"^(\d+(?:\.\d+)+)", str)),
        clocksource=tree.text(f"{CLOCKSOURCE}/current_clocksource") or None,
        store_bypass=tree.fields("proc/self/status").get("Speculation_Store_Bypass"),
        governors=tuple(sorted(set(filter(None, governors)))) or None,
        boost=None if no_turbo is None else not no_turbo,
        load=tree.value("proc/loadavg", reading(r"^(\d+\.\d+) ", float)),
        stolen=tree.value("proc/stat", _stolen),
    )


HYPERVISORS = ("VirtualBox", "VMware", "Xen", "Hyper-V", "KVM", "QEMU")
"""As system vendor, product name or clock sources name them, surest first."""


def _hypervisor(tree: Tree, flags: tuple[str, ...]) -> Hypervisor:
    kind = tree.text("sys/hypervisor/type")
    if not kind and "hypervisor" not in flags:
        return Hypervisor(present=False if flags else None)
    places = ("sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name", f"{CLOCKSOURCE}/available_clocksource")
    clues = " ".join([kind or "", *(tree.text(place) or "" for place in places)]).lower()
    named = (name for name in HYPERVISORS if name.lower().replace("-", "") in clues)
    return Hypervisor(present=True, name=next(named, None))


def _memory(tree: Tree) -> Memory:
    return Memory(
        available_bytes=tree.field("proc/meminfo", "MemAvailable", parse_size),
        locked_limit_bytes=tree.value("proc/self/limits", reading(r"^Max locked memory\s+(\S+)", _limit)),
        transparent=tree.value("sys/kernel/mm/transparent_hugepage/enabled", reading(r"\[(\w+)\]", str)),
        huge_pages=tree.value("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", int),
        numa_nodes=tree.value("sys/devices/system/node/online", parse_cpu_list),
    )


def _limit(text: str) -> int | Unlimited:
    return "unlimited" if text == "unlimited" else int(text)


def _stolen(text: str) -> float | None:
    """From the text of proc/stat: the share of the time that some program of this machine wanted to run which a
    hypervisor gave to others."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, text.split()[1:9])
    wanted = user + nice + system + irq + softirq + steal
    return steal / wanted if wanted else None
