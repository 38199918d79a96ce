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

from setebench.counters.counted import Region
from setebench.counters.protocol import Count
from setebench.errors import SetebenchError
from setebench.native.perf.encode import MOST_EVENTS, Term, Wanted
from setebench.native.perf.messages import Situation, explain, no_counter
from setebench.native.perf.opened import Counters, summed
from setebench.text import GIGA, in_bytes

VARIABLE = "SETEBENCH_REGIONS"
"""The variable of the program's environment that names the file."""

RECORDS = 4096
"""Pairs of thread and region that there is room for: 4 MiB, mapped whole by every process that marks regions, which
takes it about a millisecond once. What finds no room is reported."""

SHARED_MEMORY = "/dev/shm"

_HEAD = struct.Struct("=8sIIIII36x")
_EVENT = struct.Struct("=136s8x")
_RECORD = struct.Struct(f"=96sQQQIIII{MOST_EVENTS}i{3 * MOST_EVENTS}Q{3 * MOST_EVENTS}Q56x")
_HEAD_BYTES = 4096
_BYTES = _HEAD_BYTES + RECORDS * _RECORD.size
_MAGIC = b"SETEBRG1"
_NOTHING_READ = -1


class RegionFile:
    """The file, from its making to the reading of its records. Close it, or use it as a context."""

    def __init__(self, situation: Situation) -> None:
        """Raises `SetebenchError` where there is no room for it."""
        self._situation = situation
        self._wanted: list[Wanted] = []
        self._failed: dict[str, Count] = {}
        self._events: list[tuple[str, Term]] = []  # a term, and its name
        # in memory: pages of a file on a disk are made read-only again when they are written back
        folder = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
        try:
            self._file = tempfile.NamedTemporaryFile(prefix="setebench-regions-", dir=folder)  # noqa: SIM115
            # with all its room taken already: a write to a page for which there is none would kill the program
            os.posix_fallocate(self._file.fileno(), 0, _BYTES)
        except OSError as error:
            why = f"no room for {in_bytes(_BYTES)} that programs mark their regions in"
            raise SetebenchError(f"{why} ({error}); set TMPDIR") from error
        self._memory = mmap.mmap(self._file.fileno(), _BYTES)

    def __enter__(self) -> RegionFile:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the file. Programs that have it mapped still go on with it; what they write is lost."""
        self._memory.close()
        with suppress(FileNotFoundError):
            self._file.close()

    @property
    def path(self) -> str:
        """Where it lies."""
        return self._file.name

    def offer(self, counters: Counters) -> None:
        """Say what is counted, before the program begins: the events that follow threads and were opened for the
        program, in the same form, for threads to open for themselves, as far as there is room."""
        self._wanted, self._failed = counters.wanted, counters.failed
        for each in self._wanted:
            room = len(self._events) + len(each.terms) <= MOST_EVENTS
            if room and each.of_threads and each.name not in self._failed:
                self._events += [(each.name, term) for term in each.terms]
        for place, (_, term) in enumerate(self._events):
            _EVENT.pack_into(self._memory, _HEAD.size + place * _EVENT.size, term.attributes.packed())
        _HEAD.pack_into(self._memory, 0, _MAGIC, len(self._events), RECORDS, 0, 0, 0)

    def regions(self) -> list[Region]:
        """What each thread counted in each region, in the order in which they were first entered."""
        taken = min(_HEAD.unpack_from(self._memory)[3], RECORDS)
        places = (_HEAD_BYTES + index * _RECORD.size for index in range(taken))
        return [self._region(*_RECORD.unpack_from(self._memory, place)) for place in places]

    def notes(self) -> list[str]:
        """What went wrong with marks, a line each."""
        wrong = (
            f"begins of regions were not counted: more than {RECORDS:,} pairs of thread and region",
            "ends of regions without a begin on the same thread",
        )
        counts = _HEAD.unpack_from(self._memory)[4:6]
        return [f"{number} {what}" for number, what in zip(counts, wrong, strict=True) if number]

    def _region(self, name: bytes, calls: int, nanoseconds: int, _begun: int, *rest: int) -> Region:
        process, thread, unended, _next, *numbers = rest
        errors, sums = numbers[:MOST_EVENTS], numbers[MOST_EVENTS:]
        return Region(
            name=name.split(b"\0", 1)[0].decode(errors="replace"),
            calls=calls,
            unended=unended,
            seconds=nanoseconds / GIGA,
            process=process,
            thread=thread,
            counts={each.name: self._count(each.name, errors, sums) for each in self._wanted},
        )

    def _count(self, name: str, errors: Sequence[int], sums: Sequence[int]) -> Count:
        if name in self._failed:
            return self._failed[name]
        terms = [(place, term) for place, (of, term) in enumerate(self._events) if of == name]
        reason = "" if terms else f"only events of threads are counted for regions, {MOST_EVENTS} at most"
        for place, term in terms:
            reason = reason or (self._why(errors[place], term) if errors[place] else "")
        if reason:
            return Count(role=name, reason=reason)
        parts = [(sums[3 * at + 2] * term.factor, sums[3 * at], sums[3 * at + 1]) for at, term in terms]
        return summed(name, parts, self._situation)

    def _why(self, error: int, term: Term) -> str:
        if error == _NOTHING_READ:
            return no_counter(self._situation)
        if error == errno.EBADF:
            return "the program closed the descriptors of its regions' counters"
        return explain(error, term.at_rest(None), self._situation)
