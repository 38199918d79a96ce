"""The PMUs that the kernel lists below /sys/bus/event_source/devices: types, formats, CPUs and named events.

Read through a `Tree`, so that a recorded machine can stand in. What is malformed becomes a problem of the tree and is
left out; what is absent is None or empty. Formats: Documentation/ABI/testing/sysfs-bus-event_source-devices-format.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from setebench.host.event_sources import CORE_PMUS as CORE_PMUS
from setebench.host.event_sources import DEVICES
from setebench.host.tree import Tree, parse_cpu_list, parse_number, shown

_NAME = r"[A-Za-z0-9_.-]{1,64}"
_WORD = r"[A-Za-z0-9_-]{1,64}"
_SUFFIXES = (".scale", ".unit", ".snapshot", ".per-pkg")
_RANGE = re.compile(r"(\d{1,2})(?:-(\d{1,2}))?", re.ASCII)


class Bits(NamedTuple):
    """A run of bits, both ends inclusive, of one field of the attributes: config, config1, config2 or config3."""

    field: str
    low: int
    high: int


class PmuEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that the kernel names: its terms as text, and what one count is. None: the kernel says nothing."""

    text: str
    scale: float | None = None
    unit: str | None = None


class Pmu(msgspec.Struct, frozen=True, kw_only=True):
    """One PMU.

    `formats`: where each term's value goes, lowest bits first. `cpus`: on which CPUs an event of everybody is opened
    (one a socket, as a rule); None for a PMU that follows threads. `caps`: what the kernel says the PMU
    is capable of, as text. `rdpmc`: the kernel's setting of reading counters by an instruction (0 never, 1 with an open
    event, 2 always), None where it has none."""

    name: str
    type: int
    formats: dict[str, tuple[Bits, ...]] = {}
    cpus: tuple[int, ...] | None = None
    events: dict[str, PmuEvent] = {}
    caps: dict[str, str] = {}
    rdpmc: int | None = None


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
    if field not in ("config", "config1", "config2", "config3"):
        raise ValueError(f"not a format: {shown(text)}")
    return tuple(_bits(field, part) for part in ranges.split(","))


def _bits(field: str, text: str) -> Bits:
    match = _RANGE.fullmatch(text.strip())
    low = int(match[1]) if match else -1
    high = int(match[2] or low) if match else -1
    if not 0 <= low <= high < 64:
        raise ValueError(f"not a range of bits: {shown(text)}")
    return Bits(field, low, high)


def _pmu(tree: Tree, name: str) -> Pmu | None:
    place = f"{DEVICES}/{name}"
    number = tree.value(f"{place}/type", parse_number)
    if number is None:
        return None
    return Pmu(
        name=name,
        type=number,
        formats=_formats(tree, f"{place}/format"),
        cpus=tree.value(f"{place}/cpumask", parse_cpu_list),
        events=_events(tree, f"{place}/events"),
        caps={cap: tree.text(f"{place}/caps/{cap}") or "" for cap in tree.names(f"{place}/caps", _WORD) or ()},
        rdpmc=tree.value(f"{place}/rdpmc", parse_number),
    )


def _formats(tree: Tree, place: str) -> dict[str, tuple[Bits, ...]]:
    read = {name: tree.value(f"{place}/{name}", parse_format) for name in tree.names(place, _WORD) or ()}
    return {name: bits for name, bits in read.items() if bits is not None}


def _events(tree: Tree, place: str) -> dict[str, PmuEvent]:
    names = [name for name in tree.names(place, _NAME) or () if not name.endswith(_SUFFIXES)]
    read = ((name, tree.text(f"{place}/{name}")) for name in names)
    return {name: _event(tree, f"{place}/{name}", text) for name, text in read if text}


def _event(tree: Tree, place: str, text: str) -> PmuEvent:
    return PmuEvent(text=text, scale=tree.value(f"{place}.scale", _scale), unit=tree.text(f"{place}.unit") or None)


def _scale(text: str) -> float:
    if not re.fullmatch(r"\d{1,20}(\.\d{1,30})?([eE][+-]?\d{1,3})?", text.strip(), re.ASCII):
        raise ValueError(f"not a scale: {shown(text)}")
    return float(text)
