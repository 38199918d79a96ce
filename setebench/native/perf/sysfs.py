"""The PMUs that the kernel lists below /sys/bus/event_source/devices: types, formats, CPUs and named events.

Read through a `Tree`, so that a recorded machine can stand in. What is malformed becomes a problem of the tree and is
left out; what is absent is None or empty. Formats: Documentation/ABI/testing/sysfs-bus-event_source-devices-format.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from setebench.host.rights import CORE_PMUS as CORE_PMUS
from setebench.host.rights import DEVICES
from setebench.host.tree import Tree, parse_cpu_list

_NAME, _WORD = r"[A-Za-z0-9_.-]{1,64}", r"[A-Za-z0-9_-]{1,64}"
_SUFFIXES = (".scale", ".unit", ".snapshot", ".per-pkg")
_FIELD = re.compile(r"config[123]?")
_RANGE = re.compile(r"\s*(\d{1,2})(?:-(\d{1,2}))?\s*", re.ASCII)


class Bits(NamedTuple):
    """A run of bits, both ends inclusive, of one field of the attributes: config, config1, config2 or config3."""

    field: str
    low: int
    high: int


class Pmu(msgspec.Struct, frozen=True, kw_only=True):
    """One PMU.

    `formats`: where each term's value goes, lowest bits first. `cpus`: on which CPUs an event of everybody is opened
    (one a socket, as a rule); None for a PMU that follows threads. `events`: those that the kernel names, with their
    terms as text."""

    name: str
    type: int
    formats: dict[str, tuple[Bits, ...]] = {}
    cpus: tuple[int, ...] | None = None
    events: dict[str, str] = {}


def read_pmus(tree: Tree) -> dict[str, Pmu]:
    """Every PMU by name; empty where the kernel lists none (no /sys, or no performance events)."""
    found = (_pmu(tree, name) for name in tree.names(DEVICES, _NAME) or ())
    return {pmu.name: pmu for pmu in found if pmu is not None}


def core_pmus(pmus: dict[str, Pmu]) -> list[Pmu]:
    """Those of the cores, empty where the kernel drives none."""
    return [pmus[name] for name in CORE_PMUS if name in pmus]


def parse_format(text: str) -> tuple[Bits, ...]:
    """The bits of a format file such as "config:0-7,32-35" or "config1:0-63", in the order in which a value fills them.

    Raises ValueError for anything else."""
    field, _, ranges = text.strip().partition(":")
    found = [_RANGE.fullmatch(part) for part in ranges.split(",")]
    bits = [Bits(field, int(match[1]), int(match[2] or match[1])) for match in found if match]
    if not _FIELD.fullmatch(field) or None in found or not all(low <= high < 64 for _, low, high in bits):
        raise ValueError(f"not a format of bits: {text!r}")
    return tuple(bits)


def _pmu(tree: Tree, name: str) -> Pmu | None:
    place = f"{DEVICES}/{name}"
    number = tree.value(f"{place}/type", int)
    if number is None:
        return None
    terms = tree.names(f"{place}/format", _WORD) or ()
    formats = {term: tree.value(f"{place}/format/{term}", parse_format) for term in terms}
    events = [event for event in tree.names(f"{place}/events", _NAME) or () if not event.endswith(_SUFFIXES)]
    named = {event: tree.text(f"{place}/events/{event}") for event in events}
    return Pmu(
        name=name,
        type=number,
        formats={term: bits for term, bits in formats.items() if bits is not None},
        cpus=tree.value(f"{place}/cpumask", parse_cpu_list),
        events={event: terms for event, terms in named.items() if terms},
    )
