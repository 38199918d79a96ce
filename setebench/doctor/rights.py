"""Checks of privileged sources, none of which is needed."""

from __future__ import annotations

from collections.abc import Iterator

from setebench.doctor.records import BAD, GOOD, NOTE, Check, row
from setebench.errors import NO_MACHINE_CODE
from setebench.host.access import Access
from setebench.host.environment import Environment


def rights_checks(environment: Environment) -> Iterator[Check]:
    """The right to make code, MSR and pagemap access, and files that could not be read."""
    access = environment.access
    yield machine_code(access)
    unread = "Which prefetchers the firmware has turned off can't be looked up; it is found by timing."
    devices = {"readable": "readable", "absent": "no MSR device", "unreadable": "the MSR device can't be read"}
    yield row(
        "MSR access",
        devices[access.msr] if access.msr else None,
        ("there is no /dev to look in", unread),
        (
            access.msr == "readable",
            GOOD,
            "Where it may be written too, scenarios with --msr switch prefetchers off for a while to confirm what they "
            "find, and put them back.",
        ),
        (True, NOTE, unread, "Nothing is lost. As root, 'modprobe msr' offers the device where the kernel has it."),
    )
    hidden = "Physical addresses are hidden, so sets of shared caches are found by timing."
    maps = {"frames": "shows frame numbers", "hidden": "shows zeros", "unreadable": "can't be read"}
    yield row(
        "pagemap",
        maps.get(access.pagemap, "not there") if access.pagemap else None,
        ("only a running system shows it", hidden),
        (
            access.pagemap == "frames",
            GOOD,
            "In a guest these are the guest's own and say little of the caches. Nothing relies on them.",
        ),
        (True, NOTE, hidden, "Nothing is lost. Root, or CAP_SYS_ADMIN, sees frame numbers."),
    )
    if environment.unread:
        yield row("unread files", None, ("; ".join(environment.unread), "What these hold counts as unknown above."))


def machine_code(access: Access) -> Check:
    """The check whether a probe, or a simulated machine, can be made to run at all."""
    meaning = "Probes are written at run time and then made executable, never both at once."
    return row(
        "machine code",
        None if access.machine_code is None else "allowed" if access.machine_code else "refused",
        ("only a running system shows it", meaning),
        (access.machine_code, GOOD, meaning),
        (True, BAD, "Neither a probe on this CPU nor a simulated machine can be run.", NO_MACHINE_CODE),
    )
