"""Checks of the CPUs: what they are, who shares them, and what moves their frequency."""

from __future__ import annotations

from setebench.doctor.records import Check, bad, good, note, unknown
from setebench.host.cgroup import Limits
from setebench.host.environment import Activity, Environment, Frequency
from setebench.host.processor import Processor, Topology
from setebench.host.tree import format_cpu_list

STOLEN_NOTE = 0.001
STOLEN_BAD = 0.02
"""Shares of wanted time taken by the hypervisor: up to the first nothing shows, from the second on samples are lost."""
FEATURES = ("rdtscp", "clflushopt", "clwb", "3dnowprefetch", "avx", "avx512f", "constant_tsc")
"""Flags that decide which clock brackets, flushes, hints and access widths there are."""


def cpu_checks(environment: Environment, cpu: int | None) -> list[Check]:
    """Checks of the CPUs, with `cpu` the one to measure on (None: any of the allowed ones)."""
    topology = environment.topology
    guest = environment.hypervisor.present
    return [
        _processor(environment.cpu),
        _hypervisor(environment),
        _stolen(environment.activity, guest),
        _allowed(topology, cpu),
        _siblings(topology, cpu, guest),
        *_kinds(topology, cpu),
        _governor(environment.frequency, guest),
        _boost(environment.frequency, guest),
        _isolation(topology, cpu),
        _quota(environment.limits),
        _load(environment.activity, topology),
        _store_bypass(environment.kernel.store_bypass),
    ]


def _processor(processor: Processor) -> Check:
    name = "processor"
    meaning = (
        "For the record only: no parameter is looked up by name, and a guest may be shown another model's numbers."
    )
    if processor.vendor is None and processor.name is None:
        return unknown(name, "/proc/cpuinfo says nothing of it", meaning)
    numbers = (("family", processor.family), ("model", processor.model), ("stepping", processor.stepping))
    parts = [
        processor.name or processor.vendor or "",
        *(f"{what} {value}" for what, value in numbers if value is not None),
    ]
    if not processor.flags:
        return good(name, ", ".join(parts), meaning)
    features = [flag for flag in FEATURES if flag in processor.flags]
    return good(name, f"{', '.join(parts)}; has {', '.join(features) or 'none of ' + ', '.join(FEATURES)}", meaning)


def _hypervisor(environment: Environment) -> Check:
    name, hypervisor = "hypervisor", environment.hypervisor
    if hypervisor.present is None:
        return unknown(
            name,
            "neither CPU flags nor /sys/hypervisor can be read",
            "In a guest, pages, frequency and CPU time are the hypervisor's to give.",
        )
    if not hypervisor.present:
        return good(name, "none", "The CPU is this system's own.")
    return note(
        name,
        hypervisor.name or "a guest; the hypervisor does not say its name",
        "The hypervisor may take the CPU away at any time, scatter physical memory, splinter huge pages and hide CPUs, "
        "counters and frequency.",
        "Trust what is measured, not what the system describes. Bare metal gives narrower intervals.",
    )


def _stolen(activity: Activity, guest: bool | None) -> Check:
    name, stolen = "steal time", activity.stolen
    if stolen is None:
        return unknown(
            name,
            "/proc/stat does not say",
            "While a hypervisor runs others on this CPU, the clock goes on.",
        )
    found = f"{100 * stolen:.2g} % of the wanted CPU time since boot"
    if stolen <= STOLEN_NOTE:
        quiet = "The CPU was there when wanted" + (", as far as the hypervisor shows." if guest else ".")
        return good(name, found, quiet)
    meaning = "The hypervisor ran another guest meanwhile (steal); timings hit by that are thrown away."
    if stolen < STOLEN_BAD:
        return note(name, found, meaning, "Nothing, unless intervals come out wide: then measure at a quieter time.")
    return bad(
        name,
        found,
        meaning + " So much of it also means foreign data in the shared caches.",
        "Measure at a quieter time, or on a guest with CPUs of its own.",
    )


def _allowed(topology: Topology, cpu: int | None) -> Check:
    name = "allowed CPUs"
    allowed = topology.allowed
    if allowed is None:
        return unknown(
            name, "/proc/self/status does not say", "Threads are pinned; that needs to know where they may run."
        )
    online = f" (online: {format_cpu_list(topology.online)})" if topology.online else ""
    found = f"{format_cpu_list(allowed)}{online}"
    if cpu is not None and cpu not in allowed:
        return bad(
            name,
            found,
            f"CPU {cpu} is not among them, so nothing can run there.",
            "Choose another with --cpu, or widen the CPU set with taskset or the container's settings.",
        )
    if len(allowed) == 1:
        return note(
            name,
            found,
            "Questions of several CPUs (coherence, shared caches, SMT) can't be asked.",
            "Allow at least two CPUs, with taskset or the container's settings, to ask them.",
        )
    return good(name, found, "Enough for every question of several CPUs.")


def _siblings(topology: Topology, cpu: int | None, guest: bool | None) -> Check:
    name = "SMT sibling"
    if topology.siblings is None:
        return unknown(
            name,
            "the CPU topology can't be read",
            "A busy sibling shares the core's caches and miss buffers.",
            "Keep the rest of the machine idle.",
        )
    usable = {cpu} if cpu is not None else set(topology.allowed or topology.online or ())
    groups = [group for group in topology.siblings if len(group) > 1 and usable & set(group)]
    if groups:
        return note(
            name,
            "these share a core: " + "; ".join(map(format_cpu_list, groups)),
            "Work on the sibling takes part of L1, L2, miss buffers and issue slots, and appears as a smaller core.",
            "Keep the sibling idle while measuring. Questions about SMT itself use both.",
        )
    if guest:
        return note(
            name,
            "none is shown",
            "A hypervisor may run two CPUs of a guest, or another guest's, on one core without saying so.",
            "Watch the jitter of the clock; ask the provider for whole cores.",
        )
    return good(name, "none", "The core belongs to one CPU.")


def _kinds(topology: Topology, cpu: int | None) -> list[Check]:
    if not topology.kinds:
        return []
    found = "; ".join(f"{kind}: {format_cpu_list(cpus)}" for kind, cpus in sorted(topology.kinds.items()))
    own = [kind for kind, cpus in topology.kinds.items() if cpu in cpus]
    if own:
        return [good("kinds of core", f"{found}; CPU {cpu} is {own[0]}", "Findings hold for this kind of core only.")]
    return [
        note(
            "kinds of core",
            found,
            "Findings hold for the kind of core they were measured on.",
            "Run once for each kind, choosing a CPU of it with --cpu.",
        )
    ]


HIDDEN = "hidden by the hypervisor"
NO_FILES = "the system offers no such files"


def _governor(frequency: Frequency, guest: bool | None) -> Check:
    name = "frequency governor"
    meaning = "The core frequency may move between and within runs; every run is warmed up and calibrated for that."
    if frequency.governors is None:
        return unknown(name, HIDDEN if guest else NO_FILES, meaning)
    limits = (frequency.min_hz, frequency.max_hz)
    span = f", {limits[0] / 1e6:,.0f} to {limits[1] / 1e6:,.0f} MHz" if limits[0] and limits[1] else ""
    found = f"{', '.join(frequency.governors)} ({frequency.driver or 'driver not known'}){span}"
    if frequency.governors == ("performance",):
        return good(name, found, "The system asks for the highest frequency all the time.")
    return note(
        name, found, meaning, "Choose the governor 'performance' (cpupower frequency-set -g performance, as root)."
    )


def _boost(frequency: Frequency, guest: bool | None) -> Check:
    name = "frequency boost"
    meaning = "Boost depends on temperature and on what other cores do, so cycles per tick drift."
    if frequency.boost is None:
        return unknown(name, HIDDEN if guest else NO_FILES, meaning)
    if not frequency.boost:
        return good(name, "off", "The frequency stays at or below its nominal value.")
    return note(
        name,
        "on",
        meaning,
        "Turn it off for the narrowest intervals: 0 into /sys/devices/system/cpu/cpufreq/boost, "
        "or 1 into intel_pstate/no_turbo beside it, as root.",
    )


def _isolation(topology: Topology, cpu: int | None) -> Check:
    name = "CPU isolation"
    if topology.isolated is None:
        return unknown(name, "the kernel does not say", "The scheduler may run anything on the measuring CPU.")
    ticks = f", nohz_full {format_cpu_list(topology.full_ticks_off)}" if topology.full_ticks_off else ""
    found = f"isolated {format_cpu_list(topology.isolated)}{ticks}"
    candidates = topology.isolated if cpu is None else tuple({cpu} & set(topology.isolated))
    if not candidates:
        return note(
            name,
            found,
            "Other processes and the scheduler's tick interrupt measurements; what they hit is thrown away.",
            "Boot with isolcpus= and nohz_full= for the CPU to measure on, where that is worth a reboot.",
        )
    if cpu is None:
        return note(
            name, found, "Isolated CPUs are only used when asked for.", f"Measure there: --cpu {candidates[0]}."
        )
    return good(name, found, f"Nothing else is scheduled on CPU {cpu}.")


def _quota(limits: Limits) -> Check:
    name, quota = "CPU quota", limits.cpu_quota
    if quota is None:
        return unknown(
            name, "the control groups can't be read", "A used-up quota stops the process for tens of milliseconds."
        )
    if quota == "unlimited":
        return good(name, "none", "No control group stops the process.")
    return bad(
        name,
        f"{quota:g} CPUs",
        "When the quota is used up the process stands still until the next period.",
        "Run without a CPU limit (a CPU set instead), at least one whole CPU more than threads are used.",
    )


def _load(activity: Activity, topology: Topology) -> Check:
    name, load = "load", activity.load
    count = len(topology.online or topology.allowed or ())
    if load is None or not count:
        return unknown(name, "load or number of CPUs can't be read", "Other work shares caches, memory and frequency.")
    found = f"{load:.2f} on {count} {'CPU' if count == 1 else 'CPUs'} (last minute)"
    if load < 0.25 * count:
        return good(name, found, "Little else runs.")
    meaning = "Other work takes shared cache, memory bandwidth and frequency."
    if load < 0.75 * count:
        return note(name, found, meaning, "Stop what can be stopped; this may also be the trace of your own last run.")
    return bad(name, found, meaning, "Stop other work, wait a minute, and look again.")


def _store_bypass(state: str | None) -> Check:
    name = "store bypass"
    if state is None:
        return unknown(
            name, "/proc/self/status does not say", "Without speculative store bypass, loads wait for earlier stores."
        )
    if state.endswith("mitigated"):
        return note(
            name,
            state,
            "Loads wait until the addresses of all earlier stores are known: store findings describe that mode.",
            "Measure outside of seccomp sandboxes, or without spec_store_bypass_disable=on.",
        )
    return good(name, state, "Loads may pass earlier stores, as programs usually run.")
