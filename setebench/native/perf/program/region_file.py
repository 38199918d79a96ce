"""Memory shared with a program that marks regions: which events to count, and what each of its threads counted where.

The other side, in the program, is `setebench/include/setebench.h`, and its structures are the ones here. Each record is
written by one thread only, and read here when the program has ended.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import tempfile
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from setebench.counters.counted import RegionCounts
from setebench.counters.protocol import Count
from setebench.errors import SetebenchError
from setebench.native.perf.attributes import Attributes, Software, Type
from setebench.native.perf.messages import Request, Situation, explain, no_counter
from setebench.native.perf.plans import user_form
from setebench.native.perf.program.opened import Opened, counted
from setebench.native.perf.program.wanted import MOST_EVENTS

VARIABLE = "SETEBENCH_REGIONS"
"""The variable of the program's environment that names the file."""

RECORDS = 4096
"""Pairs of thread and region that there is room for: 4 MiB, mapped whole by every process that marks regions, which
takes it about a millisecond once. What finds no room is reported."""

_HEAD = struct.Struct("=8sIIIII36x")
_ATTRIBUTES_BYTES = 136
_EVENT = struct.Struct(f"={_ATTRIBUTES_BYTES}siI")
_RECORD = struct.Struct(f"=96sQQQIIII{MOST_EVENTS}i{3 * MOST_EVENTS}Q{3 * MOST_EVENTS}Q56x")
_HEAD_BYTES = 4096
_MAGIC = b"SETEBRG1"
_NOTHING_READ = -1
_FIRST_ERROR, _FIRST_SUM = 8, 8 + MOST_EVENTS
_PLACES = ("/dev/shm", None)
"""Memory first: pages of a file on a disk are made read-only again when they are written back, and the next write to
one is a page fault of the program's."""


class RegionEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a thread that regions count: a term of the name with index `name`."""

    name: int
    attributes: Attributes
    factor: float


def region_events(opened: Sequence[Opened]) -> list[RegionEvent]:
    """The events that threads may open for themselves: those that follow threads and were opened for the program, in
    the same form. At most `MOST_EVENTS`."""
    events = []
    for index, each in enumerate(opened):
        for term in each.wanted.plan.terms if each.counts and each.wanted.of_threads else ():
            event = user_form(term.attributes) if each.user_only else term.attributes
            event = msgspec.structs.replace(event, disabled=True, inherit=False, enable_on_exec=False)
            events.append(RegionEvent(name=index, attributes=event, factor=term.factor))
    return events[:MOST_EVENTS]


class RegionFile:
    """The file, from its making to the reading of its records. Close it, or use it as a context."""

    def __init__(self, situation: Situation) -> None:
        """Raises `SetebenchError` where there is no room for it in memory nor in the folder for temporary files."""
        self._situation = situation
        self._opened: tuple[Opened, ...] = ()
        self._events: list[RegionEvent] = []
        self.path, descriptor = _new_file(_HEAD_BYTES + RECORDS * _RECORD.size)
        try:
            self._memory = mmap.mmap(descriptor, _HEAD_BYTES + RECORDS * _RECORD.size)
        finally:
            os.close(descriptor)

    def __enter__(self) -> RegionFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def offer(self, opened: Sequence[Opened]) -> None:
        """Say what is counted, before the program begins."""
        self._opened, self._events = tuple(opened), region_events(opened)
        self._write_head()

    def close(self) -> None:
        """Remove the file. Programs that have it mapped still go on with it; what they write is lost."""
        self._memory.close()
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def regions(self) -> list[RegionCounts]:
        """What each thread counted in each region, in the order in which they were first entered."""
        taken = min(_HEAD.unpack_from(self._memory)[3], RECORDS)
        offsets = (_HEAD_BYTES + index * _RECORD.size for index in range(taken))
        return [self._region(_RECORD.unpack_from(self._memory, offset)) for offset in offsets]

    def notes(self) -> list[str]:
        """What went wrong with marks, a line each."""
        lost, unmatched = _HEAD.unpack_from(self._memory)[4:6]
        notes = []
        if lost:
            notes.append(f"{lost} begins of regions were not counted: more than {RECORDS:,} pairs of thread and region")
        if unmatched:
            notes.append(f"{unmatched} ends of regions without a begin on the same thread")
        return notes

    def _write_head(self) -> None:
        first = next((index for index, event in enumerate(self._events) if _may_share(event.attributes)), 0)
        for index, event in enumerate(self._events):
            leader = first if _may_share(event.attributes) else index
            offset = _HEAD.size + index * _EVENT.size
            attributes = msgspec.structs.replace(event.attributes, disabled=leader == index)
            _EVENT.pack_into(self._memory, offset, attributes.packed(), leader, 0)
        _HEAD.pack_into(self._memory, 0, _MAGIC, len(self._events), RECORDS, 0, 0, 0)

    def _region(self, fields: tuple[int | bytes, ...]) -> RegionCounts:
        name = bytes(fields[0]).split(b"\0", 1)[0].decode(errors="replace")
        numbers = [0, *(int(field) for field in fields[1:])]
        return RegionCounts(
            name=name,
            calls=numbers[1],
            unended=numbers[6],
            seconds=numbers[2] / 1e9,
            process=numbers[4],
            thread=numbers[5],
            counts={each.wanted.name: self._count(index, each, numbers) for index, each in enumerate(self._opened)},
        )

    def _count(self, index: int, opened: Opened, numbers: Sequence[int]) -> Count:
        name = opened.wanted.name
        if opened.reason:
            return Count(role=name, reason=opened.reason)
        places = [place for place, event in enumerate(self._events) if event.name == index]
        if not places:
            return Count(role=name, reason="it is counted for CPUs, not for threads, so not for regions either")
        for place in places:
            error = numbers[_FIRST_ERROR + place]
            if error:
                return Count(role=name, reason=self._why(error, self._events[place].attributes))
        value: float = 0  # whole as long as all factors are
        enabled = running = 0
        for place in places:
            first = _FIRST_SUM + 3 * place
            value += numbers[first] * self._events[place].factor
            enabled, running = enabled + numbers[first + 1], running + numbers[first + 2]
        return counted(name, value, (enabled, running), self._situation)

    def _why(self, error: int, attributes: Attributes) -> str:
        if error == _NOTHING_READ:
            return no_counter(self._situation)
        if error == errno.EBADF:
            return "the program closed the descriptors of its regions' counters"
        return explain(error, Request(attributes=attributes), self._situation)


def _may_share(event: Attributes) -> bool:
    """Whether the event may be read with others of its kind: what the kernel counts itself never waits for a counter.
    Not its clocks, which stand still as members of a group once their thread was off its CPU (seen on Linux 6.18)."""
    return event.type == Type.SOFTWARE and event.config not in (Software.CPU_CLOCK, Software.TASK_CLOCK)


def _new_file(size: int) -> tuple[str, int]:
    """A file with all its room taken already: a write to a page for which there is none would kill the program."""
    failure = ""
    for place in _PLACES:
        try:
            descriptor, path = tempfile.mkstemp(prefix="setebench-regions-", dir=place)
        except OSError as error:
            failure = error.strerror or str(error)
            continue
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            failure = error.strerror or str(error)
            os.close(descriptor)
            os.unlink(path)
            continue
        return path, descriptor
    raise SetebenchError(f"no room for {size >> 20} MiB that programs mark their regions in ({failure}); set TMPDIR")
