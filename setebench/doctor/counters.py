"""Checks of counted events: which there are, who may count them, and what else uses the counters. Timing needs none."""

from __future__ import annotations

import re
from collections import Counter

from setebench.doctor.records import Check, CounterReport, good, note, unknown
from setebench.host.environment import Environment
from setebench.host.event_sources import EventSources

ALL, KERNEL, USER = 0, 1, 2
"""Up to these values of perf_event_paranoid ordinary users may count whole CPUs, the kernel's part of their own
programs, and the user part of these."""
FEW_COUNTERS = 4
"""Cores have at least so many for each thread; fewer are free where others hold some."""


def counter_checks(environment: Environment, counters: CounterReport) -> list[Check]:
    """PMU, rights, and what limits counting."""
    events = environment.events
    return [
        _pmu(events),
        _rights(environment.access.perf_event_paranoid, events.privileged),
        _free(events, counters),
        _watchdog(events),
        _rdpmc(events),
        _precise(events),
    ]


_NO_PMU = "Counts of caches and memory can't be had; timings need none."
_UNLISTED = "the system lists no event sources"


def _pmu(events: EventSources) -> Check:
    name = "PMU"
    if events.pmus is None:
        return unknown(name, _UNLISTED, _NO_PMU)
    if not events.core:
        return note(
            name,
            f"no CPU counters; the kernel has {', '.join(events.pmus) or 'none'}",
            f"{_NO_PMU} Page faults, context switches, migrations and time on a CPU are counted everywhere.",
            "Nothing is lost. A guest gets counters only from its hypervisor (KVM: -cpu host,pmu=on).",
        )
    return good(
        name,
        _kinds(events.pmus),
        "`setebench counters` can count; validate the events before you trust them (`setebench counters validate`).",
    )


def _kinds(pmus: tuple[str, ...]) -> str:
    """PMUs by kind, those with several boxes once: "cpu, uncore_imc (4)"."""
    kinds = Counter(re.sub(r"_\d+$", "", name) for name in pmus)
    return ", ".join(kind if number == 1 else f"{kind} ({number})" for kind, number in sorted(kinds.items()))


def _rights(level: int | None, privileged: bool | None) -> Check:
    name = "counting rights"
    if level is None:
        return unknown(name, "perf_event_paranoid is not known", "What may be counted shows only when it is asked for.")
    found = f"perf_event_paranoid {level}{', CAP_PERFMON' if privileged else ''}"
    if privileged or level <= ALL:
        return good(name, found, "Everything may be counted.")
    advice = "Lower kernel.perf_event_paranoid to {} (as root: sysctl), or give the program CAP_PERFMON."
    if level <= KERNEL:
        return note(name, found, "Own programs may be counted, memory traffic of a socket may not.", advice.format(ALL))
    if level == USER:
        return note(
            name,
            found,
            "The user part of own programs may be counted; context switches, migrations and memory traffic may not.",
            advice.format(ALL),
        )
    return note(name, found, "This distribution lets ordinary users count nothing at all.", advice.format(USER))


def _free(events: EventSources, counters: CounterReport) -> Check:
    name = "free counters"
    meaning = "So many events of a core can be counted at once; more take several runs."
    if counters.free is None:
        return unknown(name, f"not known: {counters.reason}", meaning)
    if not counters.free:
        found = "none, no PMU" if not events.core else f"none: {counters.reason}"
        return note(name, found, _NO_PMU, "" if not events.core else "See the checks around this one.")
    if counters.free < FEW_COUNTERS:
        return note(name, f"{counters.free}: {counters.reason}", meaning, "End other profilers; see NMI watchdog.")
    return good(name, str(counters.free), meaning)


def _watchdog(events: EventSources) -> Check:
    name = "NMI watchdog"
    if events.nmi_watchdog is None:
        return unknown(name, "/proc/sys/kernel/nmi_watchdog is not there", "It would hold one counter of every CPU.")
    if not events.nmi_watchdog:
        return good(name, "off", "All counters are free for events.")
    return note(
        name,
        "on",
        "It holds one counter of every CPU, and interrupts each now and then.",
        "Stop it while counting (as root: sysctl kernel.nmi_watchdog=0).",
    )


def _rdpmc(events: EventSources) -> Check:
    name = "rdpmc"
    meaning = "Counters are read by a system call, which costs about a microsecond; nothing else changes."
    if events.pmus is None or (events.core and events.rdpmc is None):
        return unknown(name, "the kernel does not say", meaning)
    if not events.core:
        return note(name, "no CPU counters to read", meaning)
    if not events.rdpmc:
        return note(name, "not allowed", meaning, "Allow it (as root: 1 into rdpmc of the PMU's folder below /sys).")
    return good(name, f"allowed ({events.rdpmc})", "An open counter can be read by an instruction.")


def _precise(events: EventSources) -> Check:
    name = "precise samples"
    meaning = "Which instruction missed, in which level and for how long can't be sampled."
    if events.pmus is None:
        return unknown(name, _UNLISTED, meaning)
    ways = [f"PEBS, level {events.max_precise}"] if events.max_precise and "ibs_op" not in events.pmus else []
    ways += ["IBS"] if "ibs_op" in events.pmus else []
    if ways:
        return good(name, ", ".join(ways), "Loads can be sampled with their latency and where they were served.")
    return note(name, "none", meaning, "Nothing is lost for timings; functions are sampled by time.")
