"""Which events can be counted at once: each needs a counter that it may use, and no counter serves two.

What limits a set: the counters that an event is allowed (Haswell's sum of misses in flight has one), fixed counters,
events that take two neighbouring counters, and the two registers for offcore responses, which events with the same
response share. Kinds of PMU are independent: each box of one has counters of its own. Whether one set fits is exact;
roles are put into the first set that they fit, those with the fewest ways first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from setebench.native.perf.tables import EventSpec

FIRST_FIXED = 32
"""Fixed counter i is number 32 + i here, as in the kernel."""
CYCLES_COUNTER = 33
"""The fixed counter of cycles, which the kernel's NMI watchdog takes."""
OFFCORE_REGISTERS = 2
"""MSRs 0x1A6 and 0x1A7; threads of a core share them."""

Way = tuple[int, ...]
"""Counters that an event takes at once."""


def grouped(
    specs: Mapping[str, EventSpec], taken: Collection[int] = (), always: Sequence[str] = ()
) -> tuple[tuple[str, ...], ...]:
    """The roles in few sets that can each be counted at once, in the order of `specs` within a set. A role that no set
    holds has one of its own. `taken`: counters of a core that others use. `always`: roles that every set has, so that
    sets can be held against each other."""
    common = [role for role in always if role in specs]
    groups: list[list[str]] = []
    for role in sorted((role for role in specs if role not in common), key=lambda role: _freedom(specs[role], taken)):
        place = next((group for group in groups if fits((specs[each] for each in (*group, role)), taken)), None)
        if place is None:
            groups.append([*common, role])
        else:
            place.append(role)
    return tuple(tuple(role for role in specs if role in group) for group in groups or ([common] if common else []))


def fits(specs: Iterable[EventSpec], taken: Collection[int] = ()) -> bool:
    """Whether these events can be counted at once."""
    events = [(spec, code) for spec in specs for code in spec.codes]
    if len({code.offcore_rsp for _, code in events if code.offcore_rsp}) > OFFCORE_REGISTERS:
        return False
    bound = {spec.pmu for spec, _ in events}
    return all(_placed([_ways(spec, taken) for spec, _ in events if spec.pmu == pmu and _known(spec)]) for pmu in bound)


def _known(spec: EventSpec) -> bool:
    """Whether the table says which counters can hold it."""
    return bool(spec.counters) or spec.fixed is not None


def _ways(spec: EventSpec, taken: Collection[int]) -> list[Way]:
    ways = [tuple(range(first, first + spec.width)) for first in spec.counters]
    ways += [] if spec.fixed is None else [(FIRST_FIXED + spec.fixed,)]
    return [way for way in ways if spec.pmu != "cpu" or not set(way) & set(taken)]


def _freedom(spec: EventSpec, taken: Collection[int]) -> tuple[int, int]:
    return len(_ways(spec, taken)) if _known(spec) else FIRST_FIXED, -len(spec.codes)


def _placed(events: Sequence[Sequence[Way]]) -> bool:
    """Whether each event gets counters of its own: the one with the fewest ways is tried in each of them."""
    if not events:
        return True
    if len(events) > len({counter for ways in events for way in ways for counter in way}):
        return False
    at = min(range(len(events)), key=lambda number: len(events[number]))
    others = [*events[:at], *events[at + 1 :]]
    return any(_placed([[way for way in ways if not set(way) & set(own)] for ways in others]) for own in events[at])
