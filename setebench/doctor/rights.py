"""Checks of privileged sources. None is needed; with them findings can be held against the hardware's own counts."""

from __future__ import annotations

from setebench.doctor.records import Check, good, note, unknown
from setebench.host.access import Access
from setebench.host.environment import Environment

ANYBODY_PARANOID = 2
"""Up to this value of perf_event_paranoid a process may count its own user-space events."""


def rights_checks(environment: Environment) -> list[Check]:
    """PMU, MSR and pagemap access, and files that could not be read."""
    access = environment.access
    return [_pmu(access), _msr(access), _pagemap(access), *_unread(environment.unread)]


def _pmu(access: Access) -> Check:
    name = "PMU"
    meaning = "Findings can't be held against hardware counters; they come from timing alone, as everywhere."
    if access.pmu is None:
        return unknown(name, "the system lists no event sources", meaning)
    if not access.pmu:
        return note(
            name, "no CPU counters", meaning, "Nothing is lost. A guest gets counters only from its hypervisor."
        )
    level = access.perf_event_paranoid
    found = f"CPU counters, perf_event_paranoid {'not known' if level is None else level}"
    if level is None:
        return unknown(name, found, meaning)
    if level <= ANYBODY_PARANOID:
        return good(name, found, "You can hold findings against hardware counters with other tools.")
    return note(name, found, meaning, "Lower kernel.perf_event_paranoid to 2 (as root) to count with other tools.")


def _msr(access: Access) -> Check:
    name = "MSR access"
    meaning = "Which prefetchers the firmware has turned off can't be looked up; it is found by timing."
    if access.msr is None:
        return unknown(name, "there is no /dev to look in", meaning)
    if access.msr == "readable":
        return good(
            name,
            "readable",
            "Where it may be written too, prefetcher-map and loaded-latency switch prefetchers off for a while to "
            "confirm what they find, and put them back; --no-msr forbids that.",
        )
    found = "no MSR device" if access.msr == "absent" else "the MSR device can't be read"
    return note(
        name, found, meaning, "Nothing is lost. As root, 'modprobe msr' offers the device where the kernel has it."
    )


def _pagemap(access: Access) -> Check:
    name = "pagemap"
    meaning = "Physical addresses are hidden, so sets of shared caches are found by timing."
    if access.pagemap is None:
        return unknown(name, "only a running system can tell", meaning)
    if access.pagemap == "frames":
        return good(
            name,
            "shows frame numbers",
            "In a guest these are the guest's own and say little of the caches. Nothing relies on them.",
        )
    found = {"hidden": "shows zeros", "unreadable": "can't be read", "absent": "not there"}[access.pagemap]
    return note(name, found, meaning, "Nothing is lost. Root, or CAP_SYS_ADMIN, sees frame numbers.")


def _unread(problems: tuple[str, ...]) -> list[Check]:
    if not problems:
        return []
    return [unknown("unread files", "; ".join(problems), "What these would tell counts as unknown above.")]
