"""Checks of the CPUs: who shares them, who takes them away, how fast they run."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.host.doctor.reports import BAD, GOOD, NOTE, Check, either, row
from setebench.host.environment import Environment, Kernel
from setebench.host.processor import Processor, Topology
from setebench.text import ranges

STOLEN_NOTE, STOLEN_BAD = 0.001, 0.02  # shares of CPU time up to which nothing shows, and from which samples are lost
QUIET_LOAD, BUSY_LOAD = 0.25, 0.75  # load of a CPU up to which little else runs, and from which too much does


def cpu_checks(environment: Environment, cpu: int | None) -> Iterator[Check]:
    """Those of a measurement on `cpu`, or on any that is allowed."""
    topology, guest = environment.topology, environment.hypervisor.present
    record = "For the record only: no parameter is looked up by name, and a guest may be shown another model's numbers."
    yield row("processor", _processor(environment.cpu), True, record)
    named = environment.hypervisor.name or "a guest; the hypervisor does not say its name"
    yield row(
        "hypervisor",
        either(guest, named, "none"),
        not guest,
        "A hypervisor may take the CPU away, scatter physical memory, splinter huge pages, hide CPUs and counters.",
        "Trust what is measured, not what the system describes. Bare metal gives narrower intervals.",
    )
    yield from _activity(environment.kernel, len(topology.online or topology.allowed or ()))
    yield from _choice(topology, cpu)
    yield from _shared(topology, cpu, guest)
    quota = environment.limits.cpu_quota
    yield row(
        "CPU quota",
        None if quota is None else "none" if quota == "unlimited" else f"{quota:g} CPUs",
        GOOD if quota == "unlimited" else BAD,
        "When a quota is used up the process stands still until the next period, for tens of milliseconds.",
        "Run without a CPU limit (a CPU set instead), at least one whole CPU more than threads are used.",
    )
    governors, boost = environment.kernel.governors, environment.kernel.boost
    bypass = environment.kernel.store_bypass
    yield row(
        "frequency governor",
        None if governors is None else ", ".join(governors),
        governors == ("performance",),
        "The core frequency may move between and within runs; every run is warmed up and calibrated for that.",
        "Choose the governor 'performance' (cpupower frequency-set -g performance, as root).",
    )
    yield row(
        "frequency boost",
        either(boost, "on", "off"),
        not boost,
        "Boost depends on temperature and on what other cores do, so cycles per tick drift.",
        "For the narrowest intervals turn it off as root: 0 into /sys/devices/system/cpu/cpufreq/boost, or 1 into "
        "intel_pstate/no_turbo beside it.",
    )
    yield row(
        "store bypass",
        bypass,
        not (bypass and bypass.endswith("mitigated")),
        "Without speculative store bypass, loads wait until the addresses of all earlier stores are known.",
        "Measure outside of seccomp sandboxes, or without spec_store_bypass_disable=on.",
    )


def _processor(processor: Processor) -> str | None:
    if processor.vendor is None and processor.name is None:
        return None
    numbers = (("family", processor.family), ("model", processor.model), ("stepping", processor.stepping))
    named = [f"{what} {each}" for what, each in numbers if each is not None]
    return ", ".join([processor.name or processor.vendor or "", *named])


def _activity(kernel: Kernel, count: int) -> Iterator[Check]:
    share, load = kernel.stolen or 0.0, kernel.load
    yield row(
        "steal time",
        None if kernel.stolen is None else f"{100 * share:.2g} % of the wanted CPU time since boot",
        GOOD if share <= STOLEN_NOTE else NOTE if share < STOLEN_BAD else BAD,
        "While the hypervisor runs another guest, the clock goes on; such timings are thrown away.",
        "Measure at a quieter time, or on a guest with CPUs of its own, where intervals come out wide.",
    )
    each = (load or 0.0) / max(count, 1)
    yield row(
        "load",
        f"{load:.2f} on {count} CPUs (last minute)" if load is not None and count else None,
        GOOD if each < QUIET_LOAD else NOTE if each < BUSY_LOAD else BAD,
        "Other work takes shared cache, memory bandwidth and frequency; it may be the trace of your own last run.",
        "Stop other work, wait a minute, and look again.",
    )


def _choice(topology: Topology, cpu: int | None) -> Iterator[Check]:
    """Which CPUs there are to choose from."""
    allowed, isolated = topology.allowed or (), topology.isolated or ()
    online = f" (online: {ranges(topology.online)})" if topology.online else ""
    yield row(
        "allowed CPUs",
        None if topology.allowed is None else f"{ranges(allowed)}{online}",
        BAD if cpu is not None and cpu not in allowed else len(allowed) > 1,
        "Threads are pinned to these; coherence, shared caches and SMT need at least two.",
        "Choose one of them with --cpu, or widen the CPU set with taskset or the container's settings.",
    )
    ticks_off = f", nohz_full {ranges(topology.full_ticks_off)}" if topology.full_ticks_off else ""
    boot = "Boot with isolcpus= and nohz_full= where that is worth it."
    yield row(
        "CPU isolation",
        None if topology.isolated is None else f"isolated {ranges(isolated)}{ticks_off}",
        cpu is not None and cpu in isolated,
        "On other CPUs processes and the scheduler's tick interrupt measurements; what they hit is thrown away.",
        f"Measure there: --cpu {isolated[0]}." if isolated else boot,
    )


def _shared(topology: Topology, cpu: int | None, guest: bool | None) -> Iterator[Check]:
    """Who shares a core, and kinds of core where there are several."""
    usable = {cpu} if cpu is not None else set(topology.allowed or topology.online or ())
    groups = [group for group in topology.siblings or () if len(group) > 1 and usable & set(group)]
    sharing = f"these share a core: {'; '.join(map(ranges, groups))}"
    none = "none is shown" if guest else "none"
    yield row(
        "SMT sibling",
        None if topology.siblings is None else sharing if groups else none,
        not groups and not guest,
        "Work on a sibling, which a hypervisor may hide, takes part of L1, L2, miss buffers and issue slots.",
        "Keep siblings idle while measuring; in a guest watch the jitter, and ask the provider for whole cores.",
    )
    if topology.kinds:
        kinds = "; ".join(f"{kind}: {ranges(cpus)}" for kind, cpus in sorted(topology.kinds.items()))
        own = [kind for kind, cpus in topology.kinds.items() if cpu in cpus]
        found = f"{kinds}; CPU {cpu} is {own[0]}" if own else kinds
        meaning = "Findings hold for the kind of core they were measured on."
        yield row(
            "kinds of core", found, bool(own), meaning, "Run once for each kind, choosing a CPU of it with --cpu."
        )
