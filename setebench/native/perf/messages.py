"""Why an event can't be counted here, in one line with what to do: errno of perf_event_open(2) beside what the system
says of itself.

Values 3 and 4 of perf_event_paranoid are those of distributions (Debian, Ubuntu, Android): no events at all for
ordinary users.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec

from setebench.host.environment import Hypervisor, read_environment
from setebench.host.tree import Tree
from setebench.native.perf.attributes import EVERYBODY, Attributes, Flag, Type
from setebench.native.perf.sysfs import Pmu, core_pmus, read_pmus


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What decides over the right and the ability to count. None: the system does not say."""

    paranoid: int | None = None
    privileged: bool | None = None
    seccomp: bool = False
    hypervisor: Hypervisor = Hypervisor()
    nmi_watchdog: bool | None = None
    pmus: dict[str, Pmu] = {}


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it is requested of the kernel: of thread `pid` (-1: everybody) on `cpu` (-1: any)."""

    attributes: Attributes
    pid: int = 0
    cpu: int = -1


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


def explain(number: int, request: Request, situation: Situation) -> str:
    """One line, without a full stop: why the kernel refused this event with errno `number`, and what to do."""
    if number in (errno.EACCES, errno.EPERM):
        return _refused(request, situation)
    if number == errno.ENOENT:
        return _absent(request, situation)
    said = os.strerror(number)
    return _EXPLANATIONS.get(number, f"the kernel refused the event: {said}; see the end of dmesg").format(
        cpu=request.cpu
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


def _refused(request: Request, situation: Situation) -> str:
    """The widest of the limits that this request is beyond; the first number is the level that forbids it."""
    limits = (
        (3, True, "all events to ordinary users"),
        (1, request.pid == EVERYBODY, "events of a whole CPU or socket"),
        (2, not request.attributes.flags & Flag.EXCLUDE_KERNEL, "counting in the kernel"),
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


def _absent(request: Request, situation: Situation) -> str:
    own = {Type.HARDWARE, Type.RAW, *(pmu.type for pmu in core_pmus(situation.pmus))}
    if request.attributes.type not in own:
        return f"this kernel has no PMU of type {request.attributes.type} or no such event of it; see `counters list`"
    if not core_pmus(situation.pmus):
        return no_pmu(situation)
    return "the PMU of this CPU has no such event, or its hypervisor hides it; name another one"


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
