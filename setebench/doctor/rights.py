"""Checks of privileged sources, none of which is needed."""

from __future__ import annotations

from setebench.doctor.records import Check, good, note, unknown
from setebench.host.access import Access
from setebench.host.environment import Environment


def rights_checks(environment: Environment) -> list[Check]:
    """MSR and pagemap access, and files that could not be read."""
    access = environment.access
    return [_msr(access), _pagemap(access), *_unread(environment.unread)]


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
        return unknown(name, "only a running system shows it", meaning)
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
    return [unknown("unread files", "; ".join(problems), "What these hold counts as unknown above.")]
