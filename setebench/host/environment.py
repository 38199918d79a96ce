"""What the operating system says about the machine: for people, for comparing result files, for `setebench doctor`.

No scenario reads any of it. Everything is read, nothing is changed, and every reader takes a root directory, so that a
recorded tree of small files stands for its machine. None means unknown. Nothing kept here names the host, its user, an
address or a serial number: result files are made to be passed on.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from setebench.host.cgroup import Limits, Unlimited, read_limits
from setebench.host.processor import Processor, Topology, read_processor, read_topology
from setebench.host.rights import Rights, read_rights
from setebench.host.tree import Tree, parse_cpu_list, parse_size, reading

CPU = "sys/devices/system/cpu"
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
