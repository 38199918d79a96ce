"""Which events can be counted at once: each needs a counter that it may use, and no counter serves two.

What limits a set: the counters that an event is allowed (Haswell's sum of misses in flight has one), fixed counters,
events that take two neighbouring counters, and the two registers for offcore responses, which events with the same
response share. Kinds of PMU are independent: each box of one has counters of its own. The answer is exact for one set
(a matching); the fewest sets for many roles are searched for, and the first-fit answer stands where the search would
take too long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from setebench.native.perf.tables import EventSpec

FIRST_FIXED = 32
"""Fixed counter i is number 32 + i here, as in the kernel."""
OFFCORE_REGISTERS = 2
"""MSRs 0x1A6 and 0x1A7; threads of a core share them."""
MOST_STEPS = 20_000
"""Sets tried before first fit stands: at about 20 us a set, less than half a second. A table's 25 roles take some
hundred."""

Counters = tuple[int, ...]


class Grouping(NamedTuple):
    """Roles in sets that can each be counted at once, and the reason for each that can't be counted even alone."""

    groups: tuple[tuple[str, ...], ...]
    unfit: dict[str, str]


class _Event(NamedTuple):
    """One event of a role: the counters it may take, each way a tuple; None where nothing is known of them."""

    pmu: str
    ways: tuple[Counters, ...] | None
    offcore: int


class Registers(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to count with. `smt`: cores share their counters between two threads (whether they do was settled
    when the machine started; switching threads off later gives none back). `taken`: counters in use by others,
    by kind of PMU; the kernel's watchdog has one of "cpu"."""

    smt: bool = True
    taken: dict[str, frozenset[int]] = {}


USUAL = Registers()


def fits(specs: Iterable[EventSpec], registers: Registers = USUAL) -> bool:
    """Whether these events can be counted at once."""
    return _fits([event for spec in specs for event in _events(spec, registers)])


def grouped(specs: Mapping[str, EventSpec], registers: Registers = USUAL, always: Sequence[str] = ()) -> Grouping:
    """The roles in as few sets as can each be counted at once, in the order of `specs` within a set.

    `always`: roles that every set has, so that sets can be held against each other (cycles, say)."""
    return _Search(specs, registers, always).run()


def _events(spec: EventSpec, registers: Registers) -> list[_Event]:
    gone = registers.taken.get(spec.pmu, frozenset())
    allowed = spec.counters if registers.smt else spec.counters_without_smt or spec.counters
    ways = [tuple(range(first, first + spec.width)) for first in allowed]
    if spec.fixed is not None:
        ways.append((FIRST_FIXED + spec.fixed,))
    free = tuple(way for way in ways if not gone & set(way))
    return [_Event(spec.pmu, free if ways else None, code.offcore_rsp) for code in spec.codes]


def _fits(events: Sequence[_Event]) -> bool:
    if len({event.offcore for event in events if event.offcore}) > OFFCORE_REGISTERS:
        return False
    pmus = {event.pmu for event in events}
    return all(_placed([event.ways for event in events if event.pmu == pmu and event.ways is not None]) for pmu in pmus)


def _placed(events: Sequence[tuple[Counters, ...]]) -> bool:
    """Whether each event gets counters of its own. Events of several counters are tried one way after the other, those
    of one are matched (augmenting paths)."""
    wide = next((at for at, ways in enumerate(events) if any(len(way) > 1 for way in ways)), None)
    if wide is None:
        return _matched([[way[0] for way in ways] for ways in events])
    others = [*events[:wide], *events[wide + 1 :]]
    return any(_placed([_without(ways, way) for ways in others]) for way in events[wide])


def _without(ways: tuple[Counters, ...], used: Counters) -> tuple[Counters, ...]:
    return tuple(way for way in ways if not set(way) & set(used))


def _matched(events: Sequence[Sequence[int]]) -> bool:
    holder: dict[int, int] = {}

    def give(event: int, seen: set[int]) -> bool:
        for counter in events[event]:
            if counter not in seen:
                seen.add(counter)
                if counter not in holder or give(holder[counter], seen):
                    holder[counter] = event
                    return True
        return False

    return all(give(event, set()) for event in range(len(events)))


class _Search:
    """The fewest sets. Roles are placed one after the other, those with the fewest ways first."""

    def __init__(self, specs: Mapping[str, EventSpec], registers: Registers, always: Sequence[str]) -> None:
        self._events = {role: _events(spec, registers) for role, spec in specs.items()}
        self._always = tuple(role for role in always if role in specs)
        self._common = [event for role in self._always for event in self._events[role]]

    def run(self) -> Grouping:
        unfit = {role: self._reason(role) for role in self._events if not self._alone(role)}
        always = [role for role in self._always if role not in unfit]
        roles = sorted((role for role in self._events if role not in unfit and role not in always), key=self._freedom)
        if not roles:
            return Grouping((tuple(always),) if always else (), unfit)
        best = self._first_fit(roles)
        for number in range(self._at_least(roles), len(best)):
            steps = islice(self._sets(roles, number), MOST_STEPS)
            found = next((groups for groups in steps if groups), None)
            if found:
                best = found
                break
        return Grouping(tuple(self._ordered([*always, *group]) for group in best), unfit)

    def _ordered(self, group: Sequence[str]) -> tuple[str, ...]:
        return tuple(role for role in self._events if role in group)

    def _alone(self, role: str) -> bool:
        return _fits(self._events[role]) and (role in self._always or self._together([role]))

    def _reason(self, role: str) -> str:
        number = len(self._events[role])
        beside = f" beside {', '.join(self._always)}" if self._always and role not in self._always else ""
        needed = "a counter" if number == 1 else f"{number} counters at once"
        return f"needs {needed} that it may use, more than are free{beside}"

    def _together(self, group: Sequence[str]) -> bool:
        return _fits([*self._common, *(event for role in group for event in self._events[role])])

    def _freedom(self, role: str) -> tuple[int, int]:
        events = self._events[role]
        return min(len(event.ways) if event.ways is not None else FIRST_FIXED for event in events), -len(events)

    def _first_fit(self, roles: Sequence[str]) -> list[list[str]]:
        groups: list[list[str]] = []
        for role in roles:
            place = next((group for group in groups if self._together([*group, role])), None)
            if place is None:
                groups.append([role])
            else:
                place.append(role)
        return groups

    def _at_least(self, roles: Sequence[str]) -> int:
        """A number of sets that no answer is below: events that only some counters can hold, by those counters."""
        events = [event for role in roles for event in self._events[role] if event.ways]
        own = {(event.pmu, _union(event)) for event in events}
        needs = [_need(events, pmu, counters) for pmu, counters in own]
        offcore = len({event.offcore for event in events if event.offcore})
        return max([1, -(-offcore // OFFCORE_REGISTERS), *needs])

    def _sets(self, roles: Sequence[str], number: int) -> Iterator[list[list[str]] | None]:
        """Ways to put all roles into `number` sets; None for every step that led to none."""
        groups: list[list[str]] = []

        def place(at: int) -> Iterator[list[list[str]] | None]:
            if at == len(roles):
                yield [list(group) for group in groups]
                return
            for group in list(groups):
                yield None
                if self._together([*group, roles[at]]):
                    group.append(roles[at])
                    yield from place(at + 1)
                    group.pop()
            if len(groups) < number:
                groups.append([roles[at]])
                yield from place(at + 1)
                groups.pop()

        return place(0)


def _union(event: _Event) -> frozenset[int]:
    return frozenset(counter for way in event.ways or () for counter in way)


def _need(events: Iterable[_Event], pmu: str, counters: frozenset[int]) -> int:
    inside = [event for event in events if event.pmu == pmu and _union(event) <= counters]
    widths = [min(len(way) for way in event.ways or ((),)) for event in inside]
    return -(-sum(widths) // len(counters))
