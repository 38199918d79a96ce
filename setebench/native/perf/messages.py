"""The PMUs that the kernel lists below /sys/bus/event_source/devices: types, formats, CPUs and named events; and why an
event can't be counted here, in one line with what to do: errno of perf_event_open(2) beside what the system says of
itself.

PMUs are read through a `Tree`, so that a recorded machine can stand in. What is malformed becomes a problem of the tree
and is left out; what is absent is None or empty. Formats:
Documentation/ABI/testing/sysfs-bus-event_source-devices-format.

Values 3 and 4 of perf_event_paranoid are those of distributions (Debian, Ubuntu, Android): no events at all for
ordinary users.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import NamedTuple

import msgspec

from setebench.host.environment import CORE_PMUS as CORE_PMUS
from setebench.host.environment import DEVICES, Hypervisor, read_environment
from setebench.host.tree import Tree, parse_cpu_list
from setebench.native.perf.attributes import EVERYBODY, Attributes, Flag, Type

_NAME, _WORD = r"[A-Za-z0-9_.-]{1,64}", r"[A-Za-z0-9_-]{1,64}"
_SUFFIXES = (".scale", ".unit", ".snapshot", ".per-pkg")
_FIELD = re.compile(r"config[123]?")
_RANGE = re.compile(r"\s*(\d{1,2})(?:-(\d{1,2}))?\s*", re.ASCII)


class Bits(NamedTuple):
    """A run of bits, both ends inclusive, of one field of the attributes: config, config1, config2 or config3."""

    field: str
    low: int
    high: int


class Pmu(msgspec.Struct, frozen=True, kw_only=True):
    """One PMU.

    `formats`: where each term's value goes, lowest bits first. `cpus`: on which CPUs an event of everybody is opened
    (one a socket, as a rule); None for a PMU that follows threads. `events`: those that the kernel names, with their
    terms as text."""

    name: str
    type: int
    formats: dict[str, tuple[Bits, ...]] = {}
    cpus: tuple[int, ...] | None = None
    events: dict[str, str] = {}


def read_pmus(tree: Tree) -> dict[str, Pmu]:
    """Every PMU by name; empty where the kernel lists none (no /sys, or no performance events)."""
    found = (_pmu(tree, name) for name in tree.names(DEVICES, _NAME) or ())
    return {pmu.name: pmu for pmu in found if pmu is not None}


def core_pmus(pmus: dict[str, Pmu]) -> list[Pmu]:
    """Those of the cores, empty where the kernel drives none."""
    return [pmus[name] for name in CORE_PMUS if name in pmus]


def parse_format(text: str) -> tuple[Bits, ...]:
    """The bits of a format file such as "config:0-7,32-35" or "config1:0-63", in the order in which a value fills them.

    Raises ValueError for anything else."""
    field, _, ranges = text.strip().partition(":")
    found = [_RANGE.fullmatch(part) for part in ranges.split(",")]
    bits = [Bits(field, int(match[1]), int(match[2] or match[1])) for match in found if match]
    if not _FIELD.fullmatch(field) or None in found or not all(low <= high < 64 for _, low, high in bits):
        raise ValueError(f"not a format of bits: {text!r}")
    return tuple(bits)


def _pmu(tree: Tree, name: str) -> Pmu | None:
    place = f"{DEVICES}/{name}"
    number = tree.value(f"{place}/type", int)
    if number is None:
        return None
    terms = tree.names(f"{place}/format", _WORD) or ()
    formats = {term: tree.value(f"{place}/format/{term}", parse_format) for term in terms}
    events = [event for event in tree.names(f"{place}/events", _NAME) or () if not event.endswith(_SUFFIXES)]
    named = {event: tree.text(f"{place}/events/{event}") for event in events}
    return Pmu(
        name=name,
        type=number,
        formats={term: bits for term, bits in formats.items() if bits is not None},
        cpus=tree.value(f"{place}/cpumask", parse_cpu_list),
        events={event: terms for event, terms in named.items() if terms},
    )


# -- why an event can't be counted ------------------------------------------------------------------------------------


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What decides over the right and the ability to count. None: the system does not say."""

    paranoid: int | None = None
    privileged: bool | None = None
    seccomp: bool = False
    hypervisor: Hypervisor = Hypervisor()
    nmi_watchdog: bool | None = None
    pmus: dict[str, Pmu] = {}


def read_situation(tree: Tree | None = None) -> Situation:
    """The situation of this process, or of the recorded one below the tree's root. Raises nothing."""
    tree = Tree(Path("/")) if tree is None else tree
    system = read_environment(tree.root)
    return Situation(
        paranoid=system.rights.perf_event_paranoid,
        privileged=system.rights.privileged,
        seccomp=tree.fields("proc/self/status").get("Seccomp") == "2",  # by a filter
        hypervisor=system.hypervisor,
        nmi_watchdog=system.rights.nmi_watchdog,
        pmus=read_pmus(tree),
    )


def explain(number: int, event: Attributes, situation: Situation) -> str:
    """One line, without a full stop: why the kernel refused this event with errno `number`, and what to do."""
    if number in (errno.EACCES, errno.EPERM):
        return _refused(event, situation)
    if number == errno.ENOENT:
        cores = core_pmus(situation.pmus)
        if event.type not in {Type.HARDWARE, Type.RAW, *(pmu.type for pmu in cores)}:
            return f"this kernel has no PMU of type {event.type} or no such event of it; see `counters list`"
        hidden = "the PMU of this CPU has no such event, or its hypervisor hides it; name another one"
        return hidden if cores else no_pmu(situation)
    said = os.strerror(number)
    return _EXPLANATIONS.get(number, f"the kernel refused the event: {said}; see the end of dmesg").format(
        cpu=event.cpu
    )


def no_counter(situation: Situation) -> str:
    """Why a pinned group was never scheduled: it found no free counter."""
    watchdog = "stop the kernel's NMI watchdog, which holds one (as root: sysctl kernel.nmi_watchdog=0), "
    others = "end other profilers and virtual machines, or count fewer events at once"
    return f"no counter is free: {watchdog if situation.nmi_watchdog else ''}{others}"


def user_only(situation: Situation) -> str:
    """Why an event of the kernel's own doings can't be counted: the only form that may be opened counts nothing."""
    return f"it happens inside the kernel, and without the right to count there it reads 0; {_grant(1, situation)}"


def no_pmu(situation: Situation) -> str:
    """Why there is no PMU of the cores."""
    if situation.hypervisor.present:
        name = situation.hypervisor.name or "its hypervisor"
        return (
            f"{name} gives this guest no PMU: count on bare metal, or let the guest have one "
            "(KVM: -cpu host,pmu=on; VMware: virtualize CPU performance counters)"
        )
    return "the kernel drives no PMU of this CPU: see what dmesg says of 'Performance Events', and the firmware's setup"


def _grant(level: int, situation: Situation) -> str:
    """What to do to get the right to what needs perf_event_paranoid at most `level`."""
    now = "" if situation.paranoid is None else f" (it is {situation.paranoid})"
    return f"set kernel.perf_event_paranoid={level}{now} by sysctl as root, or give the program CAP_PERFMON"


def _refused(event: Attributes, situation: Situation) -> str:
    """The widest of the limits that this event is beyond; the first number is the level that forbids it."""
    limits = (
        (3, True, "all events to ordinary users"),
        (1, event.pid == EVERYBODY, "events of a whole CPU or socket"),
        (2, not event.flags & Flag.EXCLUDE_KERNEL, "counting in the kernel"),
    )
    level = -1 if situation.privileged or situation.paranoid is None else situation.paranoid
    for limit, concerned, what in limits:
        if concerned and level >= limit:
            return f"perf_event_paranoid forbids {what}: {_grant(limit - 1, situation)}"
    if situation.seccomp:
        return (
            "the container's seccomp filter forbids perf_event_open: start the container with --cap-add PERFMON, "
            "or with a seccomp profile that allows it"
        )
    return "the system refuses events to this process (a security module, or kernel lockdown): try it as root"


_UNKNOWN = "the PMU does not know these bits, this combination or one thread's part; see its 'format' folder"
_TAKEN = "another profiler or the NMI watchdog has the counters for itself: end it"
_ELSEWHERE = "CPU {cpu} is offline or has no such PMU; see lscpu"
_EXPLANATIONS = {
    **dict.fromkeys((errno.EINVAL, errno.EOPNOTSUPP), _UNKNOWN),
    **dict.fromkeys((errno.EBUSY, errno.ENOSPC), _TAKEN),
    **dict.fromkeys((errno.ENODEV, errno.ENXIO), _ELSEWHERE),
    errno.EMFILE: "too many open files for so many events and threads; raise the limit (ulimit -n)",
}
"""What an errno means here, where the system's own words would not say it."""
