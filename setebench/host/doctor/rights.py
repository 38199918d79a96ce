"""Checks of counted events and of privileged sources. Timing needs none of these, but for memory that can be made
executable."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from setebench.errors import NO_MACHINE_CODE
from setebench.host.doctor.reports import BAD, GOOD, UNKNOWN, Check, CounterReport, either, row
from setebench.host.environment import Environment

FEW_COUNTERS = 4  # cores have at least so many for each thread; fewer are free where others hold some


def rights_checks(environment: Environment, counters: CounterReport | str) -> Iterator[Check]:
    """What may be counted, run and read."""
    rights = environment.rights
    kinds = Counter(re.sub(r"_\d+$", "", name) for name in rights.pmus or ())
    names = ", ".join(kind if number == 1 else f"{kind} ({number})" for kind, number in sorted(kinds.items()))
    yield row(
        "PMU",
        None if rights.pmus is None else names if rights.core else f"no CPU counters; the kernel has {names or 'none'}",
        bool(rights.core),
        "Counts of caches and memory need it; page faults, context switches and CPU time are counted everywhere.",
        "Nothing is lost for timings. A guest gets counters only from its hypervisor (KVM: -cpu host,pmu=on).",
    )
    level, privileged = rights.perf_event_paranoid, rights.privileged
    yield row(
        "counting rights",
        None if level is None else f"perf_event_paranoid {level}{', CAP_PERFMON' if privileged else ''}",
        privileged or (level is not None and level <= 0),
        "At 1 own programs may be counted, at 2 their user part, from 3 on nothing; sockets need 0 or less.",
        "Lower kernel.perf_event_paranoid (as root: sysctl), or give the program CAP_PERFMON.",
    )
    found, enough = f"not known: {counters}", UNKNOWN if isinstance(counters, str) else counters.free >= FEW_COUNTERS
    if not isinstance(counters, str):
        why = ", no PMU" if not rights.core else "" if enough else f": {counters.reason}"
        found = f"{counters.free or 'none'}{why}"
    yield row(
        "free counters",
        found,
        enough,
        "So many events of a core can be counted at once; more take several runs.",
        "End other profilers; see NMI watchdog.",
    )
    yield row(
        "NMI watchdog",
        either(rights.nmi_watchdog, "on", "off"),
        not rights.nmi_watchdog,
        "It holds one counter of every CPU, and interrupts each now and then.",
        "Stop it while counting (as root: sysctl kernel.nmi_watchdog=0).",
    )
    yield row(
        "machine code",
        either(rights.machine_code, "allowed", "refused"),
        GOOD if rights.machine_code else BAD,
        "Probes are written at run time and then made executable, never both at once; simulators are compiled.",
        NO_MACHINE_CODE,
    )
    yield row(
        "MSR access",
        rights.msr,
        rights.msr == "readable",
        "Where it may be written too, scenarios with --msr switch prefetchers off for a while, and put them back.",
        "Nothing is lost. As root, 'modprobe msr' offers the device where the kernel has it.",
    )
    if environment.unread:
        unread = "; ".join(environment.unread)
        yield row("unread files", unread, UNKNOWN, "What these hold counts as unknown above.")
