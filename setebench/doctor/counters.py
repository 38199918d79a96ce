"""Checks of counted events: which there are, who may count them, and what else uses the counters. Timing needs none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from setebench.doctor.records import GOOD, NOTE, Check, CounterReport, row
from setebench.host.environment import Environment
from setebench.host.event_sources import EventSources

ALL, KERNEL, USER = 0, 1, 2
"""Up to these values of perf_event_paranoid ordinary users may count whole CPUs, the kernel's part of their own
programs, and the user part of these."""

FEW_COUNTERS = 4  # cores have at least so many for each thread; fewer are free where others hold some
NO_PMU = "Counts of caches and memory can't be had; timings need none."
UNLISTED = "the system lists no event sources"


def counter_checks(environment: Environment, counters: CounterReport) -> Iterator[Check]:
    """PMU, rights, and what limits counting."""
    events = environment.events
    yield row(
        "PMU",
        _pmus(events),
        (UNLISTED, NO_PMU),
        (
            events.core,
            GOOD,
            "`setebench counters` can count; validate the events before you trust them "
            "(`setebench counters validate`).",
        ),
        (
            True,
            NOTE,
            f"{NO_PMU} Page faults, context switches, migrations and time on a CPU are counted everywhere.",
            "Nothing is lost. A guest gets counters only from its hypervisor (KVM: -cpu host,pmu=on).",
        ),
    )
    yield _rights(environment.access.perf_event_paranoid, events.privileged)
    yield _free(events, counters)
    watchdog = events.nmi_watchdog
    yield row(
        "NMI watchdog",
        None if watchdog is None else "on" if watchdog else "off",
        ("/proc/sys/kernel/nmi_watchdog is not there", "It would hold one counter of every CPU."),
        (not watchdog, GOOD, "All counters are free for events."),
        (
            True,
            NOTE,
            "It holds one counter of every CPU, and interrupts each now and then.",
            "Stop it while counting (as root: sysctl kernel.nmi_watchdog=0).",
        ),
    )
    costs = "Counters are read by a system call, which costs about a microsecond; nothing else changes."
    silent = events.pmus is None or (events.core and events.rdpmc is None)
    read = f"allowed ({events.rdpmc})" if events.rdpmc else "not allowed"
    yield row(
        "rdpmc",
        None if silent else read if events.core else "no CPU counters to read",
        ("the kernel does not say", costs),
        (not events.core, NOTE, costs),
        (events.rdpmc, GOOD, "An open counter can be read by an instruction."),
        (True, NOTE, costs, "Allow it (as root: 1 into rdpmc of the PMU's folder below /sys)."),
    )
    unsampled = "Which instruction missed, in which level and for how long can't be sampled."
    ibs = "ibs_op" in (events.pmus or ())
    ways = [f"PEBS, level {events.max_precise}"] if events.max_precise and not ibs else []
    ways += ["IBS"] if ibs else []
    yield row(
        "precise samples",
        None if events.pmus is None else ", ".join(ways) or "none",
        (UNLISTED, unsampled),
        (ways, GOOD, "Loads can be sampled with their latency and where they were served."),
        (True, NOTE, unsampled, "Nothing is lost for timings; functions are sampled by time."),
    )


def _pmus(events: EventSources) -> str | None:
    """PMUs by kind, those with several boxes once: "cpu, uncore_imc (4)"."""
    if events.pmus is None:
        return None
    if not events.core:
        return f"no CPU counters; the kernel has {', '.join(events.pmus) or 'none'}"
    kinds = Counter(re.sub(r"_\d+$", "", name) for name in events.pmus)
    return ", ".join(kind if number == 1 else f"{kind} ({number})" for kind, number in sorted(kinds.items()))


def _rights(level: int | None, privileged: bool | None) -> Check:
    advice = "Lower kernel.perf_event_paranoid to {} (as root: sysctl), or give the program CAP_PERFMON."
    at = USER + 1 if level is None else level
    return row(
        "counting rights",
        None if level is None else f"perf_event_paranoid {level}{', CAP_PERFMON' if privileged else ''}",
        ("perf_event_paranoid is not known", "What may be counted shows only when it is asked for."),
        (privileged or at <= ALL, GOOD, "Everything may be counted."),
        (at <= KERNEL, NOTE, "Own programs may be counted, memory traffic of a socket may not.", advice.format(ALL)),
        (
            at == USER,
            NOTE,
            "The user part of own programs may be counted; context switches, migrations and memory traffic may not.",
            advice.format(ALL),
        ),
        (True, NOTE, "This distribution lets ordinary users count nothing at all.", advice.format(USER)),
    )


def _free(events: EventSources, counters: CounterReport) -> Check:
    meaning = "So many events of a core can be counted at once; more take several runs."
    free, reason = counters.free, counters.reason
    few = free is not None and free < FEW_COUNTERS
    return row(
        "free counters",
        None
        if free is None
        else "none, no PMU"
        if not free and not events.core
        else f"{free or 'none'}" + (f": {reason}" if few else ""),
        (f"not known: {reason}", meaning),
        (free == 0, NOTE, NO_PMU, "See the checks around this one." if events.core else ""),
        (few, NOTE, meaning, "End other profilers; see NMI watchdog."),
        (True, GOOD, meaning),
    )
