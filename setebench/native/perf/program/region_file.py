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
from typing import NamedTuple

import msgspec

from setebench.counters.counted import RegionCounts
from setebench.counters.protocol import Count
from setebench.errors import SetebenchError
from setebench.native.perf.attributes import Attributes
from setebench.native.perf.messages import Request, Situation, explain, no_counter
from setebench.native.perf.plans import Term
from setebench.native.perf.program.opened import Opened, of_thread, summed
from setebench.native.perf.program.wanted import MOST_EVENTS

VARIABLE = "SETEBENCH_REGIONS"
"""The variable of the program's environment that names the file."""

RECORDS = 4096
"""Pairs of thread and region that there is room for: 4 MiB, mapped whole by every process that marks regions, which
takes it about a millisecond once. What finds no room is reported."""

_HEAD = struct.Struct("=8sIIIII36x")
_EVENT = struct.Struct("=136s8x")
_RECORD = struct.Struct(f"=96sQQQIIII{MOST_EVENTS}i{3 * MOST_EVENTS}Q{3 * MOST_EVENTS}Q56x")
_HEAD_BYTES = 4096
_BYTES = _HEAD_BYTES + RECORDS * _RECORD.size
_MAGIC = b"SETEBRG1"
_NOTHING_READ = -1
_PLACES = ("/dev/shm", None)
"""Memory first: pages of a file on a disk are made read-only again when they are written back, and the next write to
one is a page fault of the program's."""


class RegionEvent(NamedTuple):
    """One event of a thread that regions count: a term of the name with index `name`."""

    name: int
    term: Term


class RegionFile:
    """The file, from its making to the reading of its records. Close it, or use it as a context."""

    def __init__(self, situation: Situation) -> None:
        """Raises `SetebenchError` where there is no room for it in memory nor in the folder for temporary files."""
        self._situation = situation
        self._opened: tuple[Opened, ...] = ()
        self._events: list[RegionEvent] = []
        self.path, descriptor = _new_file(_BYTES)
        try:
            self._memory = mmap.mmap(descriptor, _BYTES)
        finally:
            os.close(descriptor)

    def __enter__(self) -> RegionFile:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the file. Programs that have it mapped still go on with it; what they write is lost."""
        self._memory.close()
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def offer(self, opened: Sequence[Opened]) -> None:
        """Say what is counted, before the program begins: the events that follow threads and were opened for the
        program, in the same form, for threads to open for themselves. At most `MOST_EVENTS`."""
        self._opened = tuple(opened)
        follows = [(index, each) for index, each in enumerate(opened) if not each.reason and each.wanted.of_threads]
        self._events = [
            RegionEvent(index, msgspec.structs.replace(term, attributes=of_thread(term.attributes, each.user_only)))
            for index, each in follows
            for term in each.wanted.plan.terms
        ][:MOST_EVENTS]
        for index, event in enumerate(self._events):
            _EVENT.pack_into(self._memory, _HEAD.size + index * _EVENT.size, event.term.attributes.packed())
        _HEAD.pack_into(self._memory, 0, _MAGIC, len(self._events), RECORDS, 0, 0, 0)

    def regions(self) -> list[RegionCounts]:
        """What each thread counted in each region, in the order in which they were first entered."""
        taken = min(_HEAD.unpack_from(self._memory)[3], RECORDS)
        places = (_HEAD_BYTES + index * _RECORD.size for index in range(taken))
        return [self._region(*_RECORD.unpack_from(self._memory, place)) for place in places]

    def notes(self) -> list[str]:
        """What went wrong with marks, a line each."""
        lost, unmatched = _HEAD.unpack_from(self._memory)[4:6]
        notes = []
        if lost:
            notes.append(f"{lost} begins of regions were not counted: more than {RECORDS:,} pairs of thread and region")
        if unmatched:
            notes.append(f"{unmatched} ends of regions without a begin on the same thread")
        return notes

    def _region(self, name: bytes, calls: int, nanoseconds: int, _begun: int, *rest: int) -> RegionCounts:
        process, thread, unended, _next, *numbers = rest
        errors, sums = numbers[:MOST_EVENTS], numbers[MOST_EVENTS:]
        return RegionCounts(
            name=name.split(b"\0", 1)[0].decode(errors="replace"),
            calls=calls,
            unended=unended,
            seconds=nanoseconds / 1e9,
            process=process,
            thread=thread,
            counts={each.wanted.name: self._count(index, errors, sums) for index, each in enumerate(self._opened)},
        )

    def _count(self, index: int, errors: Sequence[int], sums: Sequence[int]) -> Count:
        opened = self._opened[index]
        name, reason = opened.wanted.name, opened.reason
        places = [place for place, event in enumerate(self._events) if event.name == index]
        if not places:
            reason = reason or "it is counted for CPUs, not for threads, so not for regions either"
        for place in places:
            if errors[place]:
                reason = reason or self._why(errors[place], self._events[place].term.attributes)
        if reason:
            return Count(role=name, reason=reason)
        parts = [
            (sums[3 * place] * self._events[place].term.factor, sums[3 * place + 1], sums[3 * place + 2])
            for place in places
        ]
        return summed(name, parts, self._situation)

    def _why(self, error: int, attributes: Attributes) -> str:
        if error == _NOTHING_READ:
            return no_counter(self._situation)
        if error == errno.EBADF:
            return "the program closed the descriptors of its regions' counters"
        return explain(error, Request(attributes=attributes), self._situation)


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
