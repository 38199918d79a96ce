"""What the operating system says about the machine: for people, for comparing result files, for `setebench doctor`.

No scenario reads any of it. Everything is read, nothing is changed, and every reader takes a root directory, so that a
recorded tree of small files stands for its machine. None means unknown. Nothing kept here names the host, its user, an
address or a serial number: result files are made to be passed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from setebench.host.access import Access, read_access
from setebench.host.activity import wanted_and_stolen_ticks
from setebench.host.cgroup import Limits, Unlimited, read_limits
from setebench.host.event_sources import EventSources, read_event_sources
from setebench.host.processor import Processor, Topology, read_processor, read_topology
from setebench.host.tree import Tree, parse_choice, parse_cpu_list, parse_number, parse_size, shown

CPU = "sys/devices/system/cpu"
T = TypeVar("T")
MITIGATIONS = (
    "gather_data_sampling",  # gathers are serialised
    "l1tf",  # a host flushes L1 data before it enters a guest
    "mds",  # fill buffers are overwritten on the way out of the kernel
    "meltdown",  # page-table isolation: system calls switch TLB contexts
    "mmio_stale_data",  # as mds
    "spec_store_bypass",  # loads wait for the addresses of all earlier stores
)
"""Vulnerabilities whose mitigation changes what user-space loads and stores cost."""


class Hypervisor(msgspec.Struct, frozen=True, kw_only=True):
    """Whether this is a guest, as far as the CPU flags and the system say, and under which hypervisor."""

    present: bool | None = None
    name: str | None = None


class Frequency(msgspec.Struct, frozen=True, kw_only=True):
    """Frequency scaling over all CPUs: the governors in use, and the limits of the slowest and the fastest CPU."""

    driver: str | None = None
    governors: tuple[str, ...] | None = None
    boost: bool | None = None
    min_hz: int | None = None
    max_hz: int | None = None


class HugePages(msgspec.Struct, frozen=True, kw_only=True):
    """Reserved huge pages of one size."""

    size_bytes: int
    total: int | None = None
    free: int | None = None


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory and pages. `transparent` is the mode of transparent huge pages: always, madvise or never."""

    total_bytes: int | None = None
    available_bytes: int | None = None
    locked_limit_bytes: int | Unlimited | None = None
    transparent: str | None = None
    huge_pages: tuple[HugePages, ...] | None = None
    numa_nodes: tuple[int, ...] | None = None


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What else went on: the load average of the last minute, and the share of wanted CPU time since boot that the
    hypervisor gave to others."""

    load: float | None = None
    stolen: float | None = None


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """Version number (a local suffix is dropped, it may name a user), clock sources, and mitigations.

    `store_bypass` is what the kernel says of this process's own speculative store bypass.
    """

    version: str | None = None
    clocksource: str | None = None
    clocksources: tuple[str, ...] | None = None
    mitigations: dict[str, str] | None = None
    store_bypass: str | None = None


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `unread` says which files were there and could not be read or understood."""

    cpu: Processor
    topology: Topology
    hypervisor: Hypervisor
    frequency: Frequency
    memory: Memory
    activity: Activity
    access: Access
    limits: Limits
    kernel: Kernel
    events: EventSources = EventSources()
    unread: tuple[str, ...] = ()

    @property
    def siblings(self) -> tuple[tuple[int, ...], ...]:
        """Groups of CPUs that share a core, empty where the topology is not known."""
        return self.topology.siblings or ()

    def to_builtins(self) -> dict[str, Any]:
        """Plain dictionaries, lists, numbers and strings, as a result file keeps them."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return plain


def read_environment(root: Path = Path("/")) -> Environment:
    """Read the environment of the machine whose system files lie below `root`.

    Raises nothing for files that are missing, forbidden or malformed: what they would have said is None.
    """
    tree = Tree(root)
    processor = read_processor(tree)
    topology = read_topology(tree)
    kernel = _kernel(tree)
    return Environment(
        cpu=processor,
        topology=topology,
        hypervisor=_hypervisor(tree, processor.flags, kernel.clocksources or ()),
        frequency=_frequency(tree),
        memory=_memory(tree),
        activity=_activity(tree),
        access=read_access(tree, (topology.allowed or topology.online or (0,))[0]),
        limits=read_limits(tree),
        kernel=kernel,
        events=read_event_sources(tree),
        unread=tuple(dict.fromkeys(tree.problems)),
    )


# -- kernel and hypervisor --------------------------------------------------------------------------------------------


def parse_fields(text: str) -> dict[str, str]:
    """The "key: value" lines of a proc file; lines of another form are left out."""
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _version(text: str) -> str:
    match = re.match(r"\d+(\.\d+)+", text)
    if not match:
        raise ValueError(f"not a kernel version: {shown(text)}")
    return match[0]


def _kernel(tree: Tree) -> Kernel:
    source = "sys/devices/system/clocksource/clocksource0"
    available = tree.text(f"{source}/available_clocksource")
    states = {name: tree.text(f"{CPU}/vulnerabilities/{name}") for name in MITIGATIONS}
    mitigations = {name: text for name, text in states.items() if text is not None}
    status = parse_fields(tree.text("proc/self/status") or "")
    return Kernel(
        version=tree.value("proc/sys/kernel/osrelease", _version),
        clocksource=tree.text(f"{source}/current_clocksource") or None,
        clocksources=None if available is None else tuple(available.split()),
        mitigations=mitigations or None,
        store_bypass=status.get("Speculation_Store_Bypass"),
    )


_HYPERVISOR_HINTS = (
    ("virtualbox", "VirtualBox"),
    ("vmware", "VMware"),
    ("parallels", "Parallels"),
    ("xen", "Xen"),
    ("hyperv", "Hyper-V"),
    ("microsoft corporation virtual machine", "Hyper-V"),
    ("kvm", "KVM"),
    ("qemu", "KVM or QEMU"),
    ("google compute engine", "KVM"),
    ("amazon ec2", "Amazon EC2"),
)
"""Substrings of system vendor, product name and clock sources, lower case, surest first."""


def _hypervisor(tree: Tree, flags: tuple[str, ...], clocksources: Iterable[str]) -> Hypervisor:
    kind = tree.text("sys/hypervisor/type")
    flagged = "hypervisor" in flags if flags else None
    present = True if kind else flagged
    if not present:
        return Hypervisor(present=present)
    vendor, product = (tree.text(f"sys/class/dmi/id/{name}") or "" for name in ("sys_vendor", "product_name"))
    clues = f"{kind or ''} {vendor} {product} {' '.join(clocksources)}".lower()
    return Hypervisor(present=True, name=next((name for hint, name in _HYPERVISOR_HINTS if hint in clues), None))


# -- frequency, memory, activity --------------------------------------------------------------------------------------


def _hertz(text: str) -> int:
    return parse_number(text) * 1000  # cpufreq files are in kHz


def _frequency(tree: Tree) -> Frequency:
    policies = [f"{CPU}/{name}/cpufreq" for name in tree.names(CPU, r"cpu\d+") or ()]

    def every(name: str, parse: Callable[[str], T]) -> list[T]:
        found = (tree.value(f"{policy}/{name}", parse) for policy in policies)
        return [each for each in found if each is not None]

    boost = tree.value(f"{CPU}/cpufreq/boost", parse_number)
    no_turbo = tree.value(f"{CPU}/intel_pstate/no_turbo", parse_number) if boost is None else not boost
    return Frequency(
        driver=next(iter(every("scaling_driver", str)), None) or None,
        governors=tuple(sorted(set(filter(None, every("scaling_governor", str))))) or None,
        boost=None if no_turbo is None else not no_turbo,
        min_hz=min(every("cpuinfo_min_freq", _hertz), default=None),
        max_hz=max(every("cpuinfo_max_freq", _hertz), default=None),
    )


def _memory(tree: Tree) -> Memory:
    fields = parse_fields(tree.text("proc/meminfo") or "")
    sizes = {
        name: tree.parsed(f"proc/meminfo {name}", fields[name], parse_size) if name in fields else None
        for name in ("MemTotal", "MemAvailable")
    }
    locked = re.search(r"^Max locked memory\s+(\S+)", tree.text("proc/self/limits") or "", re.MULTILINE)
    limit: int | Unlimited | None = None
    if locked:
        limit = "unlimited" if locked[1] == "unlimited" else tree.parsed("proc/self/limits", locked[1], parse_number)
    return Memory(
        total_bytes=sizes["MemTotal"],
        available_bytes=sizes["MemAvailable"],
        locked_limit_bytes=limit,
        transparent=tree.value("sys/kernel/mm/transparent_hugepage/enabled", parse_choice),
        huge_pages=_huge_pages(tree),
        numa_nodes=tree.value("sys/devices/system/node/online", parse_cpu_list),
    )


def _huge_pages(tree: Tree) -> tuple[HugePages, ...] | None:
    directory = "sys/kernel/mm/hugepages"
    names = tree.names(directory, r"hugepages-\d{1,12}kB")
    if names is None:
        return None
    pages = (
        HugePages(
            size_bytes=parse_size(name.removeprefix("hugepages-")),
            total=tree.value(f"{directory}/{name}/nr_hugepages", parse_number),
            free=tree.value(f"{directory}/{name}/free_hugepages", parse_number),
        )
        for name in names
    )
    return tuple(sorted(pages, key=lambda page: page.size_bytes))


def _first_number(text: str) -> float:
    word = (text.split() or [""])[0]
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", word, re.ASCII):
        raise ValueError(f"no load average: {shown(text)}")
    return float(word)


def _activity(tree: Tree) -> Activity:
    ticks: tuple[int, int] | None = tree.value("proc/stat", wanted_and_stolen_ticks)
    wanted, stolen = ticks or (0, 0)
    load = tree.value("proc/loadavg", _first_number)
    return Activity(load=load, stolen=stolen / wanted if wanted > 0 and stolen >= 0 else None)
