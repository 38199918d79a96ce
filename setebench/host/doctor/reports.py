"""Would anything on this machine disturb a measurement? Facts and advice; nothing is changed, nothing is measured here.

`checks` turns what was read (`setebench.host.environment`) and what was measured (`Measured`) into rows: what was
found, what that means for a timing of tens of cycles, and what to do about it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Literal

import msgspec

from setebench.errors import NO_MACHINE_CODE
from setebench.host.environment import Environment
from setebench.host.processor import Processor, Topology
from setebench.host.tree import format_cpu_list

COARSE_STEP_TICKS = 2.0  # from here on one timing can't separate L1 from L2; a step of one or two is lost in jitter
WIDE_RATIO = 0.02  # above this relative width of cycles per tick the core clock moves more than an L1 hit can bear
STOLEN_NOTE, STOLEN_BAD = 0.001, 0.02  # shares of CPU time up to which nothing shows, and from which samples are lost
QUIET_LOAD, BUSY_LOAD = 0.25, 0.75  # load of a CPU up to which little else runs, and from which too much does
HUGE_BYTES = 2 << 20
ENOUGH_BYTES = 1 << 30  # buffers of several times the largest last-level cache, and room for tables
ENOUGH_LOCKED_BYTES = 64 << 20
FEW_COUNTERS = 4  # cores have at least so many for each thread; fewer are free where others hold some
FEATURES = ("rdtscp", "clflushopt", "clwb", "3dnowprefetch", "avx", "avx512f", "constant_tsc")
"""Flags that decide which clock brackets, flushes, hints and access widths there are."""


class Status(StrEnum):
    """good: disturbs nothing. note: the tool copes, or can do a little less; know it. bad: results will be wider or
    wrong unless something is done. unknown: it could not be found out, the check says why."""

    GOOD = "good"
    NOTE = "note"
    BAD = "bad"
    UNKNOWN = "unknown"


GOOD, NOTE, BAD, UNKNOWN = Status


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check. `advice` says what to do; it is empty where nothing is to be done."""

    name: str
    status: Status
    found: str
    meaning: str
    advice: str = ""


class BracketReport(msgspec.Struct, frozen=True, kw_only=True):
    """One way to read the clock: mean and standard deviation, in ticks, of an interval with nothing in it."""

    name: str
    overhead_ticks: float
    jitter_ticks: float


class ClockReport(msgspec.Struct, frozen=True, kw_only=True):
    """The clock as measured: the smallest difference between two readings, the bracket to use, what one cpuid costs,
    and core cycles per tick with their 95 % interval, None where they could not be calibrated."""

    step_ticks: float
    ticks_per_second: float
    brackets: tuple[BracketReport, ...]
    chosen: str
    cpuid_traps: bool
    cpuid_ticks: float
    cycles_per_tick: float | None = None
    cycles_per_tick_low: float | None = None
    cycles_per_tick_high: float | None = None


class PageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a 2 MiB page was granted, by which way, and whether the TLB treats it as one page.

    `tlb_behaviour`: "real" (one entry), "splintered" (an entry per 4 KiB), "unresolved" (measured, but not clear) or
    "unavailable" (no such page to measure). `reason` says how that was measured, or why not."""

    granted: bool
    how: Literal["hugetlb", "madvise", "none"]
    tlb_behaviour: Literal["real", "splintered", "unresolved", "unavailable"]
    reason: str = ""


class CounterReport(msgspec.Struct, frozen=True, kw_only=True):
    """How many of a core's counters were free at once when all were opened. `reason` says why there were no more."""

    free: int
    reason: str = ""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of the machine, or why it wasn't; and the CPU to measure on, None where any of the allowed ones
    may be."""

    clock: ClockReport | str = "nothing was measured"
    pages: PageReport | str = "nothing was measured"
    counters: CounterReport | str = "nothing was measured"
    cpu: int | None = None


def row(name: str, found: str | None, status: Status | bool, meaning: str, advice: str = "") -> Check:
    """A check; True is good, False is a note, and nothing found is unknown. `advice`: what to do where it isn't
    good."""
    if found is None:
        return unknown(name, meaning)
    chosen = status if isinstance(status, Status) else GOOD if status else NOTE
    return Check(name=name, status=chosen, found=found, meaning=meaning, advice="" if chosen is GOOD else advice)


def unknown(name: str, meaning: str, why: str = "the system does not say") -> Check:
    """A check that can't be made."""
    return Check(name=name, status=UNKNOWN, found=why, meaning=meaning)


def checks(environment: Environment, measured: Measured) -> list[Check]:
    """Every check, in the order in which a person should read them."""
    return [
        *_clock(environment, measured.clock),
        *_cpus(environment, measured.cpu),
        *_frequency(environment),
        *_memory(environment, measured.pages),
        *_counters(environment, measured.counters),
        *_rights(environment),
    ]


# -- clock ------------------------------------------------------------------------------------------------------------

CPUID = "A cpuid that traps leaves the guest and disturbs caches: the paper's cpuid bracket would measure that."
BRACKET = "Overhead and jitter of an empty interval are measured beside each timing and averaged away."
STEP = "Single timings are no finer than the clock; a random wait before each start makes the mean of many right."
RATIO = "Ticks are converted to core cycles by what is calibrated beside each measurement."


def _clock(environment: Environment, clock: ClockReport | str) -> Iterator[Check]:
    if isinstance(clock, str):
        named = {"cpuid": CPUID, "clock brackets": BRACKET, "clock step": STEP, "cycles per tick": RATIO}
        yield from (unknown(name, meaning, f"not known: {clock}") for name, meaning in named.items())
    else:
        ticks, rate, value = clock.cpuid_ticks, clock.ticks_per_second, clock.cycles_per_tick
        found = f"traps to the hypervisor, {ticks:,.0f}" if clock.cpuid_traps else f"runs on the CPU, {ticks:.0f}"
        avoid = "Nothing: another bracket is chosen. Avoid the bracket 'cpuid' and the fence 'serialize' in probes."
        yield row("cpuid", f"{found} ticks a call", not clock.cpuid_traps, CPUID, avoid)
        texts = [f"{each.name} {each.overhead_ticks:,.1f} (spread {each.jitter_ticks:,.1f})" for each in clock.brackets]
        chosen = [each for each in clock.brackets if each.name == clock.chosen]
        wide = any(each.jitter_ticks > max(each.overhead_ticks, clock.step_ticks) for each in chosen)
        found = f"{clock.chosen} is best; ticks of an empty interval: {', '.join(texts)}"
        busy = "Something else runs on this CPU or takes it away: stop other work, or pick another one with --cpu."
        yield row("clock brackets", found, BAD if wide else GOOD, BRACKET, busy)
        cycles = f", {clock.step_ticks * value:.0f} core cycles" if value else ""
        found = f"{clock.step_ticks:g} ticks ({1e9 * clock.step_ticks / rate:.2f} ns{cycles}) at {rate / 1e6:.1f} MHz"
        dithered = "Nothing: timings are dithered. Medians and minima of your own analyses would be wrong here."
        yield row("clock step", found, clock.step_ticks < COARSE_STEP_TICKS, STEP, dithered)
        yield _ratio(clock)
    flags = environment.cpu.flags
    missing = [flag for flag in ("constant_tsc", "nonstop_tsc") if flag not in flags]
    status = NOTE if environment.hypervisor.present or "constant_tsc" not in missing else BAD
    yield row(
        "invariant clock",
        (f"without {' and '.join(missing)}" if missing else "constant_tsc and nonstop_tsc") if flags else None,
        status if missing else GOOD,
        "A clock that follows the core frequency, or stops in idle states, doesn't keep time between runs.",
        "In a guest nothing, unless ticks per second differ from run to run; else fix the frequency (boost off).",
    )
    source = environment.kernel.clocksource
    yield row(
        "kernel clock",
        source,
        source in ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page"),
        "A kernel that drops the time-stamp counter has a reason: it differs between CPUs, or drifts.",
        "Look for 'tsc' in the kernel log. Compare timings of different CPUs with care.",
    )


def _ratio(clock: ClockReport) -> Check:
    value, low, high = clock.cycles_per_tick, clock.cycles_per_tick_low, clock.cycles_per_tick_high
    if value is None or low is None or high is None:
        return unknown("cycles per tick", RATIO, "the calibration did not settle; stop other work and try again")
    found = f"{value:.4f} ({low:.4f} to {high:.4f}), the core at {value * clock.ticks_per_second / 1e6:,.0f} MHz"
    moves = "The core clock moves while measuring: performance governor, boost off, no other load on the package."
    return row("cycles per tick", found, high - low <= WIDE_RATIO * value, RATIO, moves)


# -- CPUs -------------------------------------------------------------------------------------------------------------


def _cpus(environment: Environment, cpu: int | None) -> Iterator[Check]:
    topology, guest, activity = environment.topology, environment.hypervisor.present, environment.activity
    record = "For the record only: no parameter is looked up by name, and a guest may be shown another model's numbers."
    yield row("processor", _processor(environment.cpu), True, record)
    named = environment.hypervisor.name or "a guest; the hypervisor does not say its name"
    yield row(
        "hypervisor",
        None if guest is None else named if guest else "none",
        not guest,
        "A hypervisor may take the CPU away, scatter physical memory, splinter huge pages, hide CPUs and counters.",
        "Trust what is measured, not what the system describes. Bare metal gives narrower intervals.",
    )
    stolen = activity.stolen
    share = stolen or 0.0
    yield row(
        "steal time",
        None if stolen is None else f"{100 * share:.2g} % of the wanted CPU time since boot",
        GOOD if share <= STOLEN_NOTE else NOTE if share < STOLEN_BAD else BAD,
        "While the hypervisor runs another guest, the clock goes on; such timings are thrown away.",
        "Measure at a quieter time, or on a guest with CPUs of its own, where intervals come out wide.",
    )
    allowed = topology.allowed
    online = f" (online: {format_cpu_list(topology.online)})" if topology.online else ""
    yield row(
        "allowed CPUs",
        None if allowed is None else f"{format_cpu_list(allowed)}{online}",
        BAD if cpu is not None and cpu not in (allowed or ()) else len(allowed or ()) > 1,
        "Threads are pinned to these; coherence, shared caches and SMT need at least two.",
        "Choose one of them with --cpu, or widen the CPU set with taskset or the container's settings.",
    )
    yield from _shared(topology, cpu, guest)
    isolated, ticks_off = topology.isolated or (), topology.full_ticks_off
    mine = cpu is not None and cpu in isolated
    yield row(
        "CPU isolation",
        None
        if topology.isolated is None
        else f"isolated {format_cpu_list(isolated)}"
        + (f", nohz_full {format_cpu_list(ticks_off)}" if ticks_off else ""),
        mine,
        "On other CPUs processes and the scheduler's tick interrupt measurements; what they hit is thrown away.",
        f"Measure there: --cpu {isolated[0]}."
        if isolated
        else "Boot with isolcpus= and nohz_full= where that is worth it.",
    )
    quota = environment.limits.cpu_quota
    yield row(
        "CPU quota",
        None if quota is None else "none" if quota == "unlimited" else f"{quota:g} CPUs",
        GOOD if quota == "unlimited" else BAD,
        "When a quota is used up the process stands still until the next period, for tens of milliseconds.",
        "Run without a CPU limit (a CPU set instead), at least one whole CPU more than threads are used.",
    )
    load, count = activity.load, len(topology.online or topology.allowed or ())
    each = (load or 0.0) / max(count, 1)
    yield row(
        "load",
        f"{load:.2f} on {count} CPUs (last minute)" if load is not None and count else None,
        GOOD if each < QUIET_LOAD else NOTE if each < BUSY_LOAD else BAD,
        "Other work takes shared cache, memory bandwidth and frequency; it may be the trace of your own last run.",
        "Stop other work, wait a minute, and look again.",
    )
    state = environment.kernel.store_bypass
    yield row(
        "store bypass",
        state,
        not (state and state.endswith("mitigated")),
        "Without speculative store bypass, loads wait until the addresses of all earlier stores are known.",
        "Measure outside of seccomp sandboxes, or without spec_store_bypass_disable=on.",
    )


def _processor(processor: Processor) -> str | None:
    if processor.vendor is None and processor.name is None:
        return None
    numbers = (("family", processor.family), ("model", processor.model), ("stepping", processor.stepping))
    named = [f"{what} {each}" for what, each in numbers if each is not None]
    features = ", ".join(flag for flag in FEATURES if flag in processor.flags) or "none of the features that matter"
    return ", ".join([processor.name or processor.vendor or "", *named]) + (
        f"; has {features}" if processor.flags else ""
    )


def _shared(topology: Topology, cpu: int | None, guest: bool | None) -> Iterator[Check]:
    """Who shares a core, and kinds of core where there are several."""
    usable = {cpu} if cpu is not None else set(topology.allowed or topology.online or ())
    groups = [group for group in topology.siblings or () if len(group) > 1 and usable & set(group)]
    none = "none is shown" if guest else "none"
    yield row(
        "SMT sibling",
        None
        if topology.siblings is None
        else f"these share a core: {'; '.join(map(format_cpu_list, groups))}"
        if groups
        else none,
        not groups and not guest,
        "Work on a sibling, which a hypervisor may hide, takes part of L1, L2, miss buffers and issue slots.",
        "Keep siblings idle while measuring; in a guest watch the jitter, and ask the provider for whole cores.",
    )
    if topology.kinds:
        kinds = "; ".join(f"{kind}: {format_cpu_list(cpus)}" for kind, cpus in sorted(topology.kinds.items()))
        own = [kind for kind, cpus in topology.kinds.items() if cpu in cpus]
        found = f"{kinds}; CPU {cpu} is {own[0]}" if own else kinds
        meaning = "Findings hold for the kind of core they were measured on."
        yield row(
            "kinds of core", found, bool(own), meaning, "Run once for each kind, choosing a CPU of it with --cpu."
        )


def _frequency(environment: Environment) -> Iterator[Check]:
    governors, boost = environment.frequency.governors, environment.frequency.boost
    yield row(
        "frequency governor",
        None if governors is None else ", ".join(governors),
        governors == ("performance",),
        "The core frequency may move between and within runs; every run is warmed up and calibrated for that.",
        "Choose the governor 'performance' (cpupower frequency-set -g performance, as root).",
    )
    yield row(
        "frequency boost",
        None if boost is None else "on" if boost else "off",
        not boost,
        "Boost depends on temperature and on what other cores do, so cycles per tick drift.",
        "For the narrowest intervals turn it off as root: 0 into /sys/devices/system/cpu/cpufreq/boost, or 1 into "
        "intel_pstate/no_turbo beside it.",
    )


# -- memory -----------------------------------------------------------------------------------------------------------


def _memory(environment: Environment, pages: PageReport | str) -> Iterator[Check]:
    memory, limits = environment.memory, environment.limits
    yield _offered(environment)
    granted = "In 4 KiB pages TLB misses add to every timing, and nothing beyond a page boundary can be measured."
    pieces = "A hypervisor may map a page in 4 KiB pieces: each takes a TLB entry, anywhere in physical memory."
    if isinstance(pages, str):
        yield unknown("2 MiB page", granted, f"not known: {pages}")
        yield unknown("2 MiB in the TLB", pieces, f"not known: {pages}")
    else:
        reserve = (
            "Reserve huge pages (sysctl vm.nr_hugepages=64, as root) or allow transparent ones, and free some memory."
        )
        found = f"granted by {pages.how}" if pages.granted else f"not granted: {pages.reason}"
        yield row("2 MiB page", found, GOOD if pages.granted else BAD, granted, reserve)
        behaviour, found = pages.tlb_behaviour, f"{pages.tlb_behaviour}: {pages.reason}"
        nothing = "Nothing in the guest: TLB reach counts in 4 KiB here, and eviction sets are found by timing."
        clear = behaviour in ("real", "splintered")
        made = row("2 MiB in the TLB", found, behaviour == "real", pieces, nothing)
        yield made if clear else unknown("2 MiB in the TLB", pieces, found)
    available, limit, left = memory.available_bytes, limits.memory_bytes, limits.memory_left_bytes
    limited = f", a control group allows {size_text(limit)}" if isinstance(limit, int) else ""
    limited += f" and has {size_text(left)} left" if isinstance(left, int) else ""
    usable = min(available or 0, left) if isinstance(left, int) else available or 0
    yield row(
        "memory",
        None if available is None else f"{size_text(available)} available{limited}",
        GOOD if usable >= ENOUGH_BYTES else BAD,
        "Buffers must be much larger than the last-level cache, without making the system swap.",
        f"Free some memory or raise the limit to {size_text(ENOUGH_BYTES)} or more.",
    )
    locked = memory.locked_limit_bytes
    yield row(
        "locked memory",
        None if locked is None else "unlimited" if isinstance(locked, str) else f"up to {size_text(locked)}",
        locked == "unlimited" or (isinstance(locked, int) and locked >= ENOUGH_LOCKED_BYTES),
        "Pages that can't be locked may be moved or swapped while measuring; buffers are touched before use.",
        "Raise it (ulimit -l, or memlock in limits.conf) if runs differ.",
    )
    nodes = memory.numa_nodes
    yield row(
        "NUMA nodes",
        None if nodes is None else format_cpu_list(nodes),
        len(nodes or ()) <= 1,
        "Memory of another node is slower, and automatic balancing moves pages.",
        "Bind to one node: numactl --cpunodebind=N --membind=N, with the same N.",
    )


def _offered(environment: Environment) -> Check:
    memory = environment.memory
    huge, transparent = memory.huge_pages or (), memory.transparent
    counts = [
        (size_text(page.size_bytes), *("?" if n is None else n for n in (page.free, page.total))) for page in huge
    ]
    sizes = ", ".join(f"{size} ({free} free of {total})" for size, free, total in counts) or "none"
    can = any(page.free for page in huge if page.size_bytes == HUGE_BYTES) or transparent in ("always", "madvise")
    unsettled = not can and (transparent is None or any(page.free is None for page in huge))
    return row(
        "page sizes",
        None if unsettled else f"4 KiB; reserved: {sizes}; transparent: {transparent or 'not known'}",
        GOOD if can else BAD,
        "Prefetching beyond a 4 KiB boundary and large buffers without TLB misses need 2 MiB pages.",
        "Reserve some (sysctl vm.nr_hugepages=64) or allow transparent ones: 'madvise' into "
        "/sys/kernel/mm/transparent_hugepage/enabled, as root.",
    )


# -- counted events and rights ----------------------------------------------------------------------------------------


def _counters(environment: Environment, counters: CounterReport | str) -> Iterator[Check]:
    """Timing needs none of these."""
    events = environment.events
    kinds = Counter(re.sub(r"_\d+$", "", name) for name in events.pmus or ())
    names = ", ".join(kind if number == 1 else f"{kind} ({number})" for kind, number in sorted(kinds.items()))
    yield row(
        "PMU",
        None if events.pmus is None else names if events.core else f"no CPU counters; the kernel has {names or 'none'}",
        bool(events.core),
        "Counts of caches and memory need it; page faults, context switches and CPU time are counted everywhere.",
        "Nothing is lost for timings. A guest gets counters only from its hypervisor (KVM: -cpu host,pmu=on).",
    )
    level, privileged = environment.access.perf_event_paranoid, events.privileged
    yield row(
        "counting rights",
        None if level is None else f"perf_event_paranoid {level}{', CAP_PERFMON' if privileged else ''}",
        privileged or (level is not None and level <= 0),
        "At 1 own programs may be counted, at 2 their user part, from 3 on nothing; sockets need 0 or less.",
        "Lower kernel.perf_event_paranoid (as root: sysctl), or give the program CAP_PERFMON.",
    )
    several = "So many events of a core can be counted at once; more take several runs."
    if isinstance(counters, str):
        yield unknown("free counters", several, f"not known: {counters}")
    else:
        few = counters.free < FEW_COUNTERS
        why = f": {counters.reason}" if few and events.core else "" if events.core else ", no PMU"
        yield row(
            "free counters",
            f"{counters.free or 'none'}{why}",
            not few,
            several,
            "End other profilers; see NMI watchdog.",
        )
    watchdog = events.nmi_watchdog
    yield row(
        "NMI watchdog",
        None if watchdog is None else "on" if watchdog else "off",
        not watchdog,
        "It holds one counter of every CPU, and interrupts each now and then.",
        "Stop it while counting (as root: sysctl kernel.nmi_watchdog=0).",
    )


def _rights(environment: Environment) -> Iterator[Check]:
    """Privileged sources, none of which is needed, but for memory that can be made executable."""
    access = environment.access
    yield row(
        "machine code",
        None if access.machine_code is None else "allowed" if access.machine_code else "refused",
        GOOD if access.machine_code else BAD,
        "Probes are written at run time and then made executable, never both at once; simulators are compiled.",
        NO_MACHINE_CODE,
    )
    devices = {"readable": "readable", "absent": "no MSR device", "unreadable": "the MSR device can't be read"}
    yield row(
        "MSR access",
        devices[access.msr] if access.msr else None,
        access.msr == "readable",
        "Where it may be written too, scenarios with --msr switch prefetchers off for a while, and put them back.",
        "Nothing is lost. As root, 'modprobe msr' offers the device where the kernel has it.",
    )
    if environment.unread:
        yield unknown("unread files", "What these hold counts as unknown above.", "; ".join(environment.unread))


def size_text(size_bytes: int) -> str:
    """A size in the largest binary unit that leaves it above one: "2 MiB", "23.5 GiB"."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"
