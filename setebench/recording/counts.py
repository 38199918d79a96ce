"""Counted events in a recording: noted as they are read, and given again to whoever asks the same.

A reading is kept as five numbers a role (a count may need 64 bits without sign, so its value takes two), compressed as
ticks are. Beside each stands after how many runs it was read, and which roles were asked for: a replay answers nothing
else.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import msgspec
import numpy as np
from numpy.typing import NDArray

from setebench.counters.protocol import Count, Counting, CountsEvents
from setebench.errors import UnsupportedError, UsageError
from setebench.machine import Machine
from setebench.recording.packing import packed, unpacked

MOST_READINGS = 1 << 22
"""Counts of one recording that are unpacked: a thousand times what validating every event takes."""

MISSING, COUNTED = 0, 1
HALF = 32
(AFTER, ASKED, ROLES, HEAD_WORDS) = range(4)
(KIND, HIGH, LOW, ENABLED, RUNNING, COUNT_WORDS) = range(6)


class EventGroups(msgspec.Struct, frozen=True, kw_only=True):
    """Roles, and the groups in which they can be counted at once."""

    roles: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]


class Events(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a recording keeps of counted events. `roles` are those that the machine knows, or why it can't say;
    `openings` says of each time that events were counted why it was refused, "" if it was not. `readings` are packed:
    for each reading the number of runs before it, a checksum of the roles asked for and how many they are, then of each
    role whether it was counted, its value in two parts (or the number of its reason in `reasons`), and the times that
    its event was enabled and running."""

    roles: dict[str, str] | str = {}
    groups: tuple[EventGroups, ...] = ()
    openings: tuple[str, ...] = ()
    readings: str = ""
    reasons: tuple[str, ...] = ()


def _checksum(roles: Sequence[str]) -> int:
    return zlib.crc32(" ".join(roles).encode())


class _NotedCounting:
    """Events of the recorded machine; whatever is read is noted."""

    def __init__(self, counting: Counting, roles: Sequence[str], noted: NotedEvents) -> None:
        self._counting = counting
        self._roles = tuple(roles)
        self._noted = noted

    def read(self) -> dict[str, Count]:
        """See `Counting.read`."""
        counts = self._counting.read()
        self._noted.note(self._roles, counts)
        return counts


class NotedEvents:
    """The part of a `Recorder` that counts events. `runs` says how many runs there were so far."""

    def __init__(self, machine: Machine, runs: Callable[[], int]) -> None:
        self._machine = machine
        self._runs = runs
        self._roles: dict[str, str] | str = {}
        self._groups: list[EventGroups] = []
        self._openings: list[str] = []
        self._readings: list[NDArray[np.int64]] = []
        self._reasons: dict[str, int] = {}

    def event_roles(self) -> dict[str, str]:
        """Those of the machine, none where it counts nothing."""
        if not isinstance(self._machine, CountsEvents):
            return {}
        try:
            found = self._roles = self._machine.event_roles()
        except UnsupportedError as error:
            self._roles = str(error)
            raise
        return found

    def event_groups(self, roles: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Those of the machine."""
        groups = self._counting_machine().event_groups(roles)
        self._groups.append(EventGroups(roles=tuple(roles), groups=groups))
        return groups

    @contextmanager
    def count_events(self, roles: Sequence[str]) -> Iterator[Counting]:
        """Count as the machine does."""
        with ExitStack() as context:
            try:
                counting = context.enter_context(self._counting_machine().count_events(roles))
            except UnsupportedError as error:
                self._openings.append(str(error))
                raise
            self._openings.append("")
            yield _NotedCounting(counting, roles, self)

    def note(self, roles: Sequence[str], counts: dict[str, Count]) -> None:
        """Keep a reading, in the order of the roles asked for."""
        wanted = tuple(dict.fromkeys(roles))
        row = [self._runs(), _checksum(wanted), len(wanted)]
        for role in wanted:
            row += self._words(counts[role])
        self._readings.append(np.array(row, dtype=np.int64))

    def events(self) -> Events:
        """Everything so far."""
        return Events(
            roles=self._roles,
            groups=tuple(self._groups),
            openings=tuple(self._openings),
            readings=packed(self._readings) if self._readings else "",
            reasons=tuple(self._reasons),
        )

    def _words(self, count: Count) -> list[int]:
        times = [count.enabled, count.running]
        if count.value is None:
            return [MISSING, self._reasons.setdefault(count.reason, len(self._reasons)), 0, *times]
        return [COUNTED, count.value >> HALF, count.value & ((1 << HALF) - 1), *times]

    def _counting_machine(self) -> CountsEvents:
        if not isinstance(self._machine, CountsEvents):
            raise UsageError(f"{self._machine.facts.name} counts no events")
        return self._machine


class _ReplayedCounting:
    """Events of a recording."""

    def __init__(self, roles: tuple[str, ...], replayed: ReplayedEvents) -> None:
        self._roles = roles
        self._replayed = replayed

    def read(self) -> dict[str, Count]:
        """See `Counting.read`."""
        return self._replayed.read(self._roles)


class ReplayedEvents:
    """The part of a `Replay` that counts events. `runs` says how many runs there were so far, `refuse` makes the error
    for a question that the recording has no answer to."""

    def __init__(self, events: Events, runs: Callable[[], int], refuse: Callable[[str], Exception]) -> None:
        self._roles = events.roles
        self._groups = iter(events.groups)
        self._openings = iter(events.openings)
        self._readings = iter(_readings(events))
        self._reasons = events.reasons
        self._runs = runs
        self._refuse = refuse

    def event_roles(self) -> dict[str, str]:
        """Those of the recorded machine, if it was asked for them."""
        if isinstance(self._roles, str):
            raise UnsupportedError(self._roles)
        return self._roles

    def event_groups(self, roles: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Those of then."""
        known = next(self._groups, None)
        if known is None or known.roles != tuple(roles):
            raise self._refuse(f"the groups of {', '.join(roles)}")
        return known.groups

    @contextmanager
    def count_events(self, roles: Sequence[str]) -> Iterator[Counting]:
        """Nothing is counted; it was then, or was refused."""
        refusal = next(self._openings, None)
        if refusal is None:
            raise self._refuse(f"counts of {', '.join(roles)}")
        if refusal:
            raise UnsupportedError(refusal)
        yield _ReplayedCounting(tuple(dict.fromkeys(roles)), self)

    def read(self, roles: tuple[str, ...]) -> dict[str, Count]:
        """The counts of then, if they were of these roles and after as many runs."""
        row = next(self._readings, None)
        if row is None or row[:HEAD_WORDS] != [self._runs(), _checksum(roles), len(roles)]:
            raise self._refuse(f"counts of {', '.join(roles)} at this place")
        words = [row[at : at + COUNT_WORDS] for at in range(HEAD_WORDS, len(row), COUNT_WORDS)]
        return {role: self._count(role, each) for role, each in zip(roles, words, strict=True)}

    def _count(self, role: str, words: list[int]) -> Count:
        missing = words[KIND] == MISSING
        return Count(
            role=role,
            value=None if missing else (words[HIGH] << HALF) + words[LOW],
            reason=self._reasons[words[HIGH]] if missing else "",
            enabled=words[ENABLED],
            running=words[RUNNING],
        )


def _readings(events: Events) -> list[list[int]]:
    """The words of each reading. Raises `UsageError` for a damaged recording."""
    numbers = unpacked(events.readings, MOST_READINGS * COUNT_WORDS).tolist() if events.readings else []
    found = []
    at = 0
    while at < len(numbers):
        roles = numbers[at + ROLES] if at + HEAD_WORDS <= len(numbers) else -1
        end = at + HEAD_WORDS + roles * COUNT_WORDS
        if roles < 0 or end > len(numbers):
            raise UsageError("the recording is damaged: its counted events are cut short")
        found.append(numbers[at:end])
        at = end
    if any(not 0 <= reason < len(events.reasons) for row in found for reason in _reasons_of(row)):
        raise UsageError("the recording is damaged: a count is missing without a reason")
    return found


def _reasons_of(row: list[int]) -> Iterator[int]:
    for at in range(HEAD_WORDS, len(row), COUNT_WORDS):
        if row[at + KIND] == MISSING:
            yield row[at + HIGH]
