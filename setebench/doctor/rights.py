"""Checks of privileged sources, none of which is needed."""

from __future__ import annotations

from setebench.doctor.records import Check, bad, good, note, unknown
from setebench.errors import NO_MACHINE_CODE
from setebench.host.access import Access
from setebench.host.environment import Environment


def rights_checks(environment: Environment) -> list[Check]:
    """The right to make code, MSR and pagemap access, and files that could not be read."""
    access = environment.access
    return [machine_code(access), _msr(access), _pagemap(access), *_unread(environment.unread)]


def machine_code(access: Access) -> Check:
    """The check whether a probe, or a simulated machine, can be made to run at all."""
    name, meaning = "machine code", "Probes are written at run time and then made executable, never both at once."
    if access.machine_code is None:
        return unknown(name, "only a running system shows it", meaning)
    if access.machine_code:
        return good(name, "allowed", meaning)
    return bad(name, "refused", "Neither a probe on this CPU nor a simulated machine can be run.", NO_MACHINE_CODE)


def _msr(access: Access) -> Check:
    name = "MSR access"
    meaning = "Which prefetchers the firmware has turned off can't be looked up; it is found by timing."
    if access.msr is None:
        return unknown(name, "there is no /dev to look in", meaning)
    if access.msr == "readable":
        return good(
            name,
            "readable",
            "Where it may be written too, scenarios with --msr switch prefetchers off for a while to confirm what they "
            "find, and put them back.",
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
