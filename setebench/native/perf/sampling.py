"""Samples of where a thread is in time: records of the kernel's ring buffers made readable, and the buffers themselves.

Layout of records: linux/perf_event.h, `enum perf_event_type`; they are words of 64 bits but for names. Every event here
is opened with `SAMPLED`, so a sample has three words, and every other record ends with thread and time.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import NamedTuple, Self

import msgspec

from setebench.errors import UnsupportedError
from setebench.native.perf import _perf
from setebench.native.perf.attributes import USER_ONLY, Attributes, Flag
from setebench.native.perf.messages import Request, explain, no_buffer, read_situation

DATA_PAGES = 16
"""64 KiB a buffer: over a thousand samples of a few words, and eight CPUs' buffers fit into the 516 KiB that the kernel
lets every user lock by default (perf_event_mlock_kb)."""
ANY_CPU = (-1,)
SAMPLED = 1 << 0 | 1 << 1 | 1 << 2
"""`sample_type`: instruction address, thread, time."""

_HEADER = struct.Struct("=IHH")
_TRAILER_BYTES = 16
_KERNEL_MODE, _MODE_BITS, _OF_EXEC = 1, 7, 1 << 13


class SampleRecord(NamedTuple):
    """One sample: `ip` is the address of the instruction; `time` in ns of CLOCK_MONOTONIC, as in all records."""

    time: int
    pid: int
    tid: int
    ip: int
    in_kernel: bool = False


class ThreadCount(NamedTuple):
    """What an event that is inherited counted of one thread of its own, written as the thread ended (`inherit_stat`).
    `enabled` and `running` in ns."""

    time: int
    tid: int
    value: int
    enabled: int
    running: int


class Lost(NamedTuple):
    """So many records found no room in the buffer."""

    time: int
    records: int


class Mapped(NamedTuple):
    """A process mapped code. `offset` is that of the mapping's begin in the file; `inode` is 0 of memory without."""

    time: int
    pid: int
    start: int
    end: int
    offset: int
    path: str
    inode: int = 0


class Renamed(NamedTuple):
    """A thread got a name, by itself or by starting a program (`of_exec`)."""

    time: int
    pid: int
    tid: int
    name: str
    of_exec: bool


class Started(NamedTuple):
    """Thread `parent_tid` of process `parent_pid` started thread `tid` of process `pid`."""

    time: int
    pid: int
    parent_pid: int
    tid: int
    parent_tid: int


Record = SampleRecord | Lost | Mapped | Renamed | Started | ThreadCount


def parse_record(data: bytes) -> Record | None:
    """The record that these bytes are; None for kinds that nothing here needs. Raises ValueError for bytes that end
    within a field."""
    kind, misc, _size = _HEADER.unpack_from(data)
    words = struct.unpack_from(f"={len(data) // 8 - 1}Q", data, _HEADER.size)
    try:
        return _parsed(kind, misc, words, data)
    except IndexError as error:
        raise ValueError(f"a record of {len(data)} bytes ends within a field") from error


def _parsed(kind: int, misc: int, words: tuple[int, ...], data: bytes) -> Record | None:
    if kind == 9:
        return SampleRecord(words[2], *_halves(words[1]), words[0], misc & _MODE_BITS == _KERNEL_MODE)
    at = words[-1]
    if kind == 10:
        start, size, offset, inode = words[1], words[2], words[3], words[5]
        return Mapped(at, _halves(words[0])[0], start, start + size, offset, _name(data, 72), inode)
    if kind == 3:
        return Renamed(at, *_halves(words[0]), _name(data, 16), bool(misc & _OF_EXEC))
    if kind == 7:
        return Started(at, *_halves(words[0]), *_halves(words[1]))
    if kind == 8:  # of an event that is alone in its group: its identity, the number 1, both times, the count
        return ThreadCount(at, words[0] >> 32, words[4], words[2], words[3])
    return Lost(at, words[1 if kind == 2 else 0]) if kind in (2, 13) else None


def _halves(word: int) -> tuple[int, int]:
    return word & 0xFFFFFFFF, word >> 32


def _name(data: bytes, begin: int) -> str:
    """Names are bytes of any kind: what isn't UTF-8 is escaped as Python's files do."""
    return data[begin : len(data) - _TRAILER_BYTES].split(b"\0", 1)[0].decode("utf-8", errors="surrogateescape")


class Sampler:
    """Samples of one event of a thread, or on each of some CPUs, from `switch` on. A context manager that closes it.

    An event that new threads inherit can have a buffer per CPU only: name the CPUs then. The kernel's part is left out
    where this user may not see it."""

    def __init__(
        self, attributes: Attributes, pid: int = 0, cpus: Sequence[int] = ANY_CPU, data_pages: int = DATA_PAGES
    ) -> None:
        """Open it, at rest where the flags say `DISABLED`. `pid` 0 is the calling thread, -1 everybody.

        Raises `UnsupportedError` with the reason where the kernel refuses."""
        self.fds: list[int] = []
        self._pages: list[_perf.Page] = []
        self.lost = 0
        """Records that found no room so far, as far as they were drained."""
        event = _stamped(attributes)
        try:
            _perf.close(_perf.open_event(event, pid, cpus[0]))
        except _perf.PerfError:
            event = event.with_flags(USER_ONLY)
        try:
            for cpu in cpus:
                self.fds.append(fd := _opened(event, pid, cpu))
                self._pages.append(_buffer(fd, data_pages))
        except BaseException:
            self.close()
            raise

    def switch(self, on: bool) -> None:
        """Take samples from now on, or stop; what is in the buffers stays there."""
        for fd in self.fds:
            (_perf.enable if on else _perf.disable)(fd)

    def drain(self) -> list[Record]:
        """Records since the last call, buffer by buffer."""
        parsed = (parse_record(data) for page in self._pages for data in page.drain())
        records = [record for record in parsed if record is not None]
        self.lost += sum(record.records for record in records if isinstance(record, Lost))
        return records

    def close(self) -> None:
        """Unmap and close everything. May be called twice."""
        while self._pages:
            self._pages.pop().close()
        while self.fds:
            _perf.close(self.fds.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _stamped(attributes: Attributes) -> Attributes:
    """The event with `SAMPLED`, by the clock of `time.monotonic_ns`."""
    event = msgspec.structs.replace(attributes, sample_type=SAMPLED, clockid=time.CLOCK_MONOTONIC)
    return event.with_flags(Flag.SAMPLE_ID_ALL | Flag.USE_CLOCKID)


def _opened(attributes: Attributes, pid: int, cpu: int) -> int:
    try:
        return _perf.open_event(attributes, pid, cpu)
    except _perf.PerfError as error:
        request = Request(attributes=attributes, pid=pid, cpu=cpu)
        raise UnsupportedError(f"no samples: {explain(error.errno or 0, request, read_situation())}") from error


def _buffer(fd: int, data_pages: int) -> _perf.Page:
    try:
        return _perf.Page(fd, data_pages)
    except _perf.PerfError as error:
        raise UnsupportedError(f"no samples: {no_buffer(error.errno or 0, data_pages)}") from error
