"""Why an event can't be counted here, in one line with what to do: errno of perf_event_open(2) beside what the system
says of itself.

Meanings of errno: perf_event_open(2), and kernel/events/core.c and arch/x86/events of Linux 6 where the manual page is
silent. Values 3 and 4 of perf_event_paranoid are those of distributions (Debian, Ubuntu, Android): no events at all for
ordinary users.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from setebench.host.environment import Hypervisor, parse_fields, read_environment
from setebench.host.event_sources import read_event_sources
from setebench.host.tree import Tree, parse_number
from setebench.native.perf.attributes import EVERYBODY, Attributes, Type
from setebench.native.perf.sysfs import Pmu, core_pmus, read_pmus

SECCOMP_FILTER = 2
NO_TRACEPOINT, NO_CPU, NO_KERNEL, NO_USER = 0, 1, 2, 3
"""From these values of perf_event_paranoid on, ordinary users may open no raw tracepoint, none that counts everybody on
a CPU, none that counts in the kernel, none at all."""


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What decides over the right and the ability to count. None: the system does not say."""

    paranoid: int | None = None
    privileged: bool | None = None
    seccomp: bool | None = None
    hypervisor: Hypervisor = Hypervisor()
    nmi_watchdog: bool | None = None
    pmus: dict[str, Pmu] = {}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it was asked for: of thread `pid` (-1: everybody) on `cpu` (-1: any)."""

    attributes: Attributes
    pid: int = 0
    cpu: int = -1


def read_situation(tree: Tree | None = None) -> Situation:
    """The situation of this process, or of the recorded one below the tree's root. Raises nothing."""
    tree = Tree(Path("/")) if tree is None else tree
    seccomp = parse_fields(tree.text("proc/self/status") or "").get("Seccomp")
    events = read_event_sources(tree)
    return Situation(
        paranoid=tree.value("proc/sys/kernel/perf_event_paranoid", parse_number),
        privileged=events.privileged,
        seccomp=None if seccomp is None else seccomp == str(SECCOMP_FILTER),
        hypervisor=read_environment(tree.root).hypervisor,
        nmi_watchdog=events.nmi_watchdog,
        pmus=read_pmus(tree),
    )


def explain(number: int, request: Request, situation: Situation) -> str:
    """One line, without a full stop: why the kernel refused this event with errno `number`, and what to do."""
    name = errno.errorcode.get(number, f"error {number}")
    unknown = f"the kernel refused the event with {name}, which it does not explain; see the end of dmesg"
    said = _EXPLANATIONS.get(number, unknown)
    return said.format(request.cpu, request.pid) if isinstance(said, str) else said(request, situation)


def no_counter(situation: Situation) -> str:
    """Why a pinned group was never scheduled: it found no free counter."""
    if situation.nmi_watchdog:
        return (
            "no counter is free: the kernel's NMI watchdog holds one; stop it (as root: sysctl kernel.nmi_watchdog=0), "
            "end other profilers, or count fewer events at once"
        )
    return "no counter is free: another profiler or virtual machine holds them; end it, or count fewer events at once"


def counts_nothing(situation: Situation) -> str:
    """Why an event that opens stays at zero whatever runs."""
    where = " under this hypervisor" if situation.hypervisor.present else ""
    return f"the event opens but does not count{where}: its counts would be zeros that mean nothing; leave it out"


def user_only(situation: Situation) -> str:
    """Why an event of the kernel's own doings can't be counted: the only form that may be opened counts nothing."""
    return (
        "it happens inside the kernel, and without the right to count there it reads 0; "
        f"{_grant(NO_KERNEL - 1, situation)}"
    )


def no_buffer(number: int, pages: int) -> str:
    """Why a ring buffer of so many pages can't be mapped, by errno of mmap(2) on an event."""
    if number == errno.EPERM:
        return (
            f"a ring buffer of {pages} pages is more locked memory than this user may have: take fewer pages, end "
            "other profilers, or raise kernel.perf_event_mlock_kb (as root) or ulimit -l"
        )
    return f"the ring buffer can't be mapped ({os.strerror(number)}): free some memory or take fewer pages than {pages}"


def no_pmu(situation: Situation) -> str:
    """Why there is no PMU of the cores."""
    if situation.hypervisor.present:
        name = situation.hypervisor.name or "its hypervisor"
        return (
            f"{name} gives this guest no PMU: count on bare metal, or let the guest have one "
            "(KVM: -cpu host,pmu=on; VMware: virtualize CPU performance counters)"
        )
    return "the kernel drives no PMU of this CPU: see what dmesg says of 'Performance Events', and the firmware's setup"


# -- rights -----------------------------------------------------------------------------------------------------------


def _grant(level: int, situation: Situation) -> str:
    """What to do to be let do what needs perf_event_paranoid at most `level`."""
    now = "" if situation.paranoid is None else f" (it is {situation.paranoid})"
    return f"set kernel.perf_event_paranoid={level}{now} by sysctl as root, or give the program CAP_PERFMON"


def _refused(request: Request, situation: Situation) -> str:
    """The widest of the limits that this request is beyond."""
    limits = (
        (NO_USER, NO_KERNEL, True, "all events to ordinary users"),
        (NO_TRACEPOINT, NO_TRACEPOINT - 1, request.attributes.type == Type.TRACEPOINT, "tracepoints"),
        (NO_CPU, NO_CPU - 1, request.pid == EVERYBODY, "events of a whole CPU or socket"),
        (NO_KERNEL, NO_KERNEL - 1, not request.attributes.exclude_kernel, "counting in the kernel"),
    )
    level = -1 if situation.privileged or situation.paranoid is None else situation.paranoid
    for limit, allowed, concerned, what in limits:
        if concerned and level >= limit:
            return f"perf_event_paranoid forbids {what}: {_grant(allowed, situation)}"
    if situation.seccomp:
        return (
            "the container's seccomp filter forbids perf_event_open: start the container with --cap-add PERFMON, "
            "or with a seccomp profile that allows it"
        )
    if request.pid > 0:
        return f"thread {request.pid} belongs to another user: count it as that user or with CAP_PERFMON"
    return "the system refuses events to this process (a security module, or kernel lockdown): try it as root"


# -- no such event, no such form --------------------------------------------------------------------------------------


def _is_core(attributes: Attributes, situation: Situation) -> bool:
    """Whether the event is one of a core's PMU."""
    own = {Type.HARDWARE, Type.HW_CACHE, Type.RAW, *(pmu.type for pmu in core_pmus(situation.pmus))}
    return attributes.type in own


def _absent(request: Request, situation: Situation) -> str:
    if not _is_core(request.attributes, situation):
        return f"this kernel has no PMU of type {request.attributes.type} or no such event of it; see `counters list`"
    if not core_pmus(situation.pmus):
        return no_pmu(situation)
    return "the PMU of this CPU has no such event, or its hypervisor hides it; name another one"


def _unfit(request: Request, situation: Situation) -> str:
    attributes, name = request.attributes, _name(request.attributes, situation)
    right = "CAP_PERFMON, or a lower perf_event_paranoid"
    if attributes.precise_ip:
        return f"this PMU has no samples as precise as asked for ({attributes.precise_ip}); ask for less"
    if request.pid == EVERYBODY and request.cpu < 0:
        return "events of everybody need a CPU; name one"
    if _is_core(attributes, situation) or attributes.type <= Type.BREAKPOINT:
        return f"{name} does not know these bits or this combination; compare the event with the PMU's 'format' folder"
    if attributes.exclude_user or attributes.exclude_kernel:
        return f"{name} counts user and kernel together; leave neither out (which needs {right})"
    if request.pid != EVERYBODY:
        return f"{name} counts whole CPUs, never one thread; count it so (which needs {right})"
    return f"{name} does not know these bits, or can't be in a group with other PMUs; see its 'format' folder"


def _name(attributes: Attributes, situation: Situation) -> str:
    return next((f"PMU {pmu.name}" for pmu in situation.pmus.values() if pmu.type == attributes.type), "the PMU")


def _unsupported(request: Request, situation: Situation) -> str:
    if request.attributes.precise_ip:
        return "this PMU takes no precise samples; ask for precise_ip 0, or count without samples"
    if request.attributes.sample_period:
        return f"{_name(request.attributes, situation)} can't interrupt, so it takes no samples: count without them"
    return f"{_name(request.attributes, situation)} does not support what was asked for; leave options out"


def _taken(request: Request, _situation: Situation) -> str:
    if request.attributes.type == Type.BREAKPOINT:
        return "all breakpoints of the CPU are in use (it has four): end the debugger or use fewer"
    return "another profiler, or the NMI watchdog, has this PMU for itself: end it and try again"


_EXPLANATIONS: dict[int, str | Callable[[Request, Situation], str]] = {
    errno.ENOENT: _absent,
    errno.EACCES: _refused,
    errno.EPERM: _refused,
    errno.EINVAL: _unfit,
    errno.EOPNOTSUPP: _unsupported,
    errno.EBUSY: _taken,
    errno.ENOSPC: _taken,
    errno.ENODEV: "CPU {0} is offline or its PMU lacks what the event needs; see lscpu",
    errno.ENXIO: "CPU {0} has no such PMU; choose another CPU",
    errno.EMFILE: "too many open files for so many events and threads; raise the limit (ulimit -n)",
    errno.ENFILE: "the system has too many open files; raise fs.file-max (as root) or end programs",
    errno.ENOMEM: "the kernel has no memory for the event; free some, or use smaller buffers",
    errno.E2BIG: "this kernel is older than what the event needs (config3: Linux 6.3); use a newer one",
    errno.ENOSYS: "this kernel is built without performance events (CONFIG_PERF_EVENTS); use another",
    errno.ESRCH: "thread {1} has ended; name one that runs",
}
"""What an errno means: a line, in which 0 is the CPU and 1 the thread, or what makes one of request and situation."""
