"""Checks of the CPUs: what they are, who shares them, and what moves their frequency."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.doctor.records import BAD, GOOD, NOTE, Check, row
from setebench.host.environment import Environment, Frequency
from setebench.host.processor import Processor, Topology
from setebench.host.tree import format_cpu_list

STOLEN_NOTE = 0.001  # share of wanted time taken by the hypervisor up to which nothing shows
STOLEN_BAD = 0.02  # from here on samples are lost
QUIET_LOAD, BUSY_LOAD = 0.25, 0.75  # load of a CPU up to which little else runs, and from which too much does
FEATURES = ("rdtscp", "clflushopt", "clwb", "3dnowprefetch", "avx", "avx512f", "constant_tsc")
"""Flags that decide which clock brackets, flushes, hints and access widths there are."""

HIDDEN = "hidden by the hypervisor"
NO_FILES = "the system offers no such files"


def cpu_checks(environment: Environment, cpu: int | None) -> Iterator[Check]:
    """Checks of the CPUs, with `cpu` the one to measure on (None: any of the allowed ones)."""
    topology, limits = environment.topology, environment.limits
    yield row(
        "processor", _processor(environment.cpu), ("/proc/cpuinfo says nothing of it", RECORD), (True, GOOD, RECORD)
    )
    yield from _guest(environment)
    yield from _shared(topology, cpu, environment.hypervisor.present)
    yield from _frequency(environment.frequency, environment.hypervisor.present)
    yield _isolation(topology, cpu)
    quota = limits.cpu_quota
    yield row(
        "CPU quota",
        None if quota is None else "none" if quota == "unlimited" else f"{quota:g} CPUs",
        ("the control groups can't be read", "A used-up quota stops the process for tens of milliseconds."),
        (quota == "unlimited", GOOD, "No control group stops the process."),
        (
            True,
            BAD,
            "When the quota is used up the process stands still until the next period.",
            "Run without a CPU limit (a CPU set instead), at least one whole CPU more than threads are used.",
        ),
    )
    load, count = environment.activity.load, len(topology.online or topology.allowed or ())
    meaning = "Other work takes shared cache, memory bandwidth and frequency."
    known = load is not None and count > 0
    each = (load or 0.0) / max(count, 1)
    yield row(
        "load",
        f"{load:.2f} on {count} {'CPU' if count == 1 else 'CPUs'} (last minute)" if known else None,
        ("load or number of CPUs can't be read", "Other work shares caches, memory and frequency."),
        (each < QUIET_LOAD, GOOD, "Little else runs."),
        (each < BUSY_LOAD, NOTE, meaning, "Stop what can be stopped; this may also be the trace of your own last run."),
        (True, BAD, meaning, "Stop other work, wait a minute, and look again."),
    )
    state = environment.kernel.store_bypass
    yield row(
        "store bypass",
        state,
        ("/proc/self/status does not say", "Without speculative store bypass, loads wait for earlier stores."),
        (
            state and state.endswith("mitigated"),
            NOTE,
            "Loads wait until the addresses of all earlier stores are known: store findings describe that mode.",
            "Measure outside of seccomp sandboxes, or without spec_store_bypass_disable=on.",
        ),
        (True, GOOD, "Loads may pass earlier stores, as programs usually run."),
    )


RECORD = "For the record only: no parameter is looked up by name, and a guest may be shown another model's numbers."


def _processor(processor: Processor) -> str | None:
    if processor.vendor is None and processor.name is None:
        return None
    numbers = (("family", processor.family), ("model", processor.model), ("stepping", processor.stepping))
    parts = [
        processor.name or processor.vendor or "",
        *(f"{what} {each}" for what, each in numbers if each is not None),
    ]
    features = [flag for flag in FEATURES if flag in processor.flags]
    has = f"; has {', '.join(features) or 'none of ' + ', '.join(FEATURES)}" if processor.flags else ""
    return ", ".join(parts) + has


def _guest(environment: Environment) -> Iterator[Check]:
    present, named = environment.hypervisor.present, environment.hypervisor.name
    yield row(
        "hypervisor",
        None if present is None else named or "a guest; the hypervisor does not say its name" if present else "none",
        (
            "neither CPU flags nor /sys/hypervisor can be read",
            "In a guest, pages, frequency and CPU time are the hypervisor's to give.",
        ),
        (not present, GOOD, "The CPU is this system's own."),
        (
            True,
            NOTE,
            "The hypervisor may take the CPU away at any time, scatter physical memory, splinter huge pages and hide "
            "CPUs, counters and frequency.",
            "Trust what is measured, not what the system describes. Bare metal gives narrower intervals.",
        ),
    )
    stolen = environment.activity.stolen
    share = stolen or 0.0
    meaning = "The hypervisor ran another guest meanwhile (steal); timings hit by that are thrown away."
    yield row(
        "steal time",
        None if stolen is None else f"{100 * stolen:.2g} % of the wanted CPU time since boot",
        ("/proc/stat does not say", "While a hypervisor runs others on this CPU, the clock goes on."),
        (
            share <= STOLEN_NOTE,
            GOOD,
            "The CPU was there when wanted" + (", as far as the hypervisor shows." if present else "."),
        ),
        (share < STOLEN_BAD, NOTE, meaning, "Nothing, unless intervals come out wide: then measure at a quieter time."),
        (
            True,
            BAD,
            meaning + " So much of it also means foreign data in the shared caches.",
            "Measure at a quieter time, or on a guest with CPUs of its own.",
        ),
    )


def _shared(topology: Topology, cpu: int | None, guest: bool | None) -> Iterator[Check]:
    """Which CPUs may be used, who shares a core, and kinds of core where there are several."""
    allowed = topology.allowed
    online = f" (online: {format_cpu_list(topology.online)})" if topology.online else ""
    yield row(
        "allowed CPUs",
        None if allowed is None else f"{format_cpu_list(allowed)}{online}",
        ("/proc/self/status does not say", "Threads are pinned; that needs to know where they may run."),
        (
            cpu is not None and cpu not in (allowed or ()),
            BAD,
            f"CPU {cpu} is not among them, so nothing can run there.",
            "Choose another with --cpu, or widen the CPU set with taskset or the container's settings.",
        ),
        (
            len(allowed or ()) == 1,
            NOTE,
            "Questions of several CPUs (coherence, shared caches, SMT) can't be asked.",
            "Allow at least two CPUs, with taskset or the container's settings, to ask them.",
        ),
        (True, GOOD, "Enough for every question of several CPUs."),
    )
    usable = {cpu} if cpu is not None else set(allowed or topology.online or ())
    groups = [group for group in topology.siblings or () if len(group) > 1 and usable & set(group)]
    none = "none is shown" if guest else "none"
    sharing = "these share a core: " + "; ".join(map(format_cpu_list, groups))
    yield row(
        "SMT sibling",
        None if topology.siblings is None else sharing if groups else none,
        (
            "the CPU topology can't be read",
            "A busy sibling shares the core's caches and miss buffers.",
            "Keep the rest of the machine idle.",
        ),
        (
            groups,
            NOTE,
            "Work on the sibling takes part of L1, L2, miss buffers and issue slots, and appears as a smaller core.",
            "Keep the sibling idle while measuring. Questions about SMT itself use both.",
        ),
        (
            guest,
            NOTE,
            "A hypervisor may run two CPUs of a guest, or another guest's, on one core without saying so.",
            "Watch the jitter of the clock; ask the provider for whole cores.",
        ),
        (True, GOOD, "The core belongs to one CPU."),
    )
    if topology.kinds:
        found = "; ".join(f"{kind}: {format_cpu_list(cpus)}" for kind, cpus in sorted(topology.kinds.items()))
        own = [kind for kind, cpus in topology.kinds.items() if cpu in cpus]
        yield row(
            "kinds of core",
            f"{found}; CPU {cpu} is {own[0]}" if own else found,
            (),
            (own, GOOD, "Findings hold for this kind of core only."),
            (
                True,
                NOTE,
                "Findings hold for the kind of core they were measured on.",
                "Run once for each kind, choosing a CPU of it with --cpu.",
            ),
        )


def _frequency(frequency: Frequency, guest: bool | None) -> Iterator[Check]:
    hidden = HIDDEN if guest else NO_FILES
    governors, low, high = frequency.governors, frequency.min_hz, frequency.max_hz
    span = f", {low / 1e6:,.0f} to {high / 1e6:,.0f} MHz" if low and high else ""
    moves = "The core frequency may move between and within runs; every run is warmed up and calibrated for that."
    yield row(
        "frequency governor",
        None if governors is None else f"{', '.join(governors)} ({frequency.driver or 'driver not known'}){span}",
        (hidden, moves),
        (governors == ("performance",), GOOD, "The system asks for the highest frequency all the time."),
        (True, NOTE, moves, "Choose the governor 'performance' (cpupower frequency-set -g performance, as root)."),
    )
    drifts = "Boost depends on temperature and on what other cores do, so cycles per tick drift."
    yield row(
        "frequency boost",
        None if frequency.boost is None else "on" if frequency.boost else "off",
        (hidden, drifts),
        (not frequency.boost, GOOD, "The frequency stays at or below its nominal value."),
        (
            True,
            NOTE,
            drifts,
            "Turn it off for the narrowest intervals: 0 into /sys/devices/system/cpu/cpufreq/boost, "
            "or 1 into intel_pstate/no_turbo beside it, as root.",
        ),
    )


def _isolation(topology: Topology, cpu: int | None) -> Check:
    isolated = topology.isolated or ()
    ticks = f", nohz_full {format_cpu_list(topology.full_ticks_off)}" if topology.full_ticks_off else ""
    candidates = isolated if cpu is None else tuple({cpu} & set(isolated))
    return row(
        "CPU isolation",
        None if topology.isolated is None else f"isolated {format_cpu_list(isolated)}{ticks}",
        ("the kernel does not say", "The scheduler may run anything on the measuring CPU."),
        (
            not candidates,
            NOTE,
            "Other processes and the scheduler's tick interrupt measurements; what they hit is thrown away.",
            "Boot with isolcpus= and nohz_full= for the CPU to measure on, where that is worth a reboot.",
        ),
        (
            cpu is None,
            NOTE,
            "Isolated CPUs are only used when asked for.",
            f"Measure there: --cpu {candidates[0] if candidates else ''}.",
        ),
        (True, GOOD, f"Nothing else is scheduled on CPU {cpu}."),
    )
