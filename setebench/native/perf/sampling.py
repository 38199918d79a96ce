"""Samples of where a program is in time: records of the kernel's ring buffers made readable, and the buffers.

Layout of records: linux/perf_event.h, `enum perf_event_type`; they are words of 64 bits but for names. Every event here
is opened with `SAMPLED`, so a sample has three words, and every other record ends with thread and time.
"""

from __future__ import annotations

import os
import struct
import time
from contextlib import AbstractContextManager
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from setebench.host.tree import Tree, parse_cpu_list
from setebench.native.perf import _perf
from setebench.native.perf.attributes import USER_ONLY, Attributes, Flag, Software, Type
from setebench.native.perf.messages import explain, read_situation
from setebench.native.perf.opened import Counters
from setebench.text import GIGA

SAMPLES_HZ = 199
"""Samples of time a second and CPU: at 20 us each 0.4 % of it; a prime number is in step with nothing that a program
does regularly."""
OBSERVED = (
    *(Flag.INHERIT, Flag.ENABLE_ON_EXEC, Flag.DISABLED, Flag.MMAP, Flag.COMM, Flag.COMM_EXEC, Flag.TASK),
    *(Flag.SAMPLE_ID_ALL, Flag.USE_CLOCKID),
)
"""From the program's exec on, with all that it starts; also what it maps, and what its threads are called."""
DATA_PAGES = 16
"""64 KiB a buffer: over a thousand samples of a few words, and eight CPUs' buffers fit into the 516 KiB that the kernel
lets every user lock by default (perf_event_mlock_kb)."""
SAMPLED = 1 << 0 | 1 << 1 | 1 << 2
"""`sample_type`: instruction address, thread, time."""
_HEADER = struct.Struct("=IHH")
_TRAILER_BYTES = 16
_KERNEL_MODE, _MODE_BITS, _OF_EXEC = 1, 7, 1 << 13


class Kind(IntEnum):
    """Kinds of record that are read, by the kernel's numbers: a process mapped code, a thread got a name or started
    a program, a thread began, a sample."""

    MAPPED = 1
    NAMED = 3
    BEGAN = 7
    SAMPLE = 9


class Record(NamedTuple):
    """One record, of process `pid` and thread `tid`, at `time` in ns of CLOCK_MONOTONIC. Of a sample `start` is the
    address of the instruction, of mapped code the addresses from `start` to `end` are those from `offset` of the file
    `name`; of a thread that began `start` and `end` are the process and thread that began it. `flag`: a sample in the
    kernel, or a name by the start of a program."""

    kind: Kind
    time: int
    pid: int
    tid: int
    start: int = 0
    end: int = 0
    offset: int = 0
    name: str = ""
    flag: bool = False


def parse_record(data: bytes) -> Record | None:
    """The record that these bytes are; None for kinds that nothing here needs."""
    number, misc, _size = _HEADER.unpack_from(data)
    words = struct.unpack_from(f"={len(data) // 8 - 1}Q", data, _HEADER.size)
    if number == Kind.SAMPLE:
        in_kernel = misc & _MODE_BITS == _KERNEL_MODE
        return Record(Kind.SAMPLE, words[2], *_halves(words[1]), words[0], flag=in_kernel)
    at, own = words[-1], _halves(words[0])
    if number == Kind.MAPPED:
        start, size, offset = words[1:4]
        return Record(Kind.MAPPED, at, *own, start, start + size, offset, _name(data, 40))
    if number == Kind.NAMED:
        return Record(Kind.NAMED, at, *own, name=_name(data, 16), flag=bool(misc & _OF_EXEC))
    if number == Kind.BEGAN:  # pid, ppid, tid, ptid
        threads = _halves(words[1])
        return Record(Kind.BEGAN, at, own[0], threads[0], own[1], threads[1])
    return None


def _halves(word: int) -> tuple[int, int]:
    return word & 0xFFFFFFFF, word >> 32


def _name(data: bytes, begin: int) -> str:
    """Names are bytes of any kind: what isn't UTF-8 is escaped as Python's files do."""
    return data[begin : len(data) - _TRAILER_BYTES].split(b"\0", 1)[0].decode("utf-8", errors="surrogateescape")


class Sampler(AbstractContextManager["Sampler"]):
    """Samples of a program's time by the CPU clock, with all that it starts, a buffer for each CPU (a
    `program.run.Observer`). The kernel's part is left out where this user may not see it. `reason` says why there are
    none, where there are none."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.begin_ns = time.monotonic_ns()
        self.reason = ""
        self._fds: list[int] = []
        self._pages: list[_perf.Page] = []

    def __exit__(self, *_: object) -> None:
        """Unmap and close everything. May be called twice."""
        while self._pages:
            self._pages.pop().close()
        while self._fds:
            os.close(self._fds.pop())

    def open(self, process: int, _counters: Counters) -> None:
        """Sample a program that waits for its exec. Where the kernel refuses there are no samples."""
        cpus = Tree(Path("/")).value("sys/devices/system/cpu/online", parse_cpu_list) or (0,)
        event = Attributes(
            type=Type.SOFTWARE,
            config=Software.CPU_CLOCK,
            sample_period=round(GIGA / SAMPLES_HZ),
            sample_type=SAMPLED,
            clockid=time.CLOCK_MONOTONIC,
            flags=sum(OBSERVED),
            pid=process,
            cpu=cpus[0],
        )
        try:
            os.close(_perf.open_event(event))
        except OSError:
            event = event.with_flags(USER_ONLY)
        try:
            for cpu in cpus:
                self._fds.append(_perf.open_event(msgspec.structs.replace(event, cpu=cpu)))
                self._pages.append(_perf.Page(self._fds[-1], DATA_PAGES))
        except OSError as error:
            refused = len(self._fds) == len(self._pages)
            self.__exit__()
            why = explain(error.errno or 0, event, read_situation())
            locked = f"no room for {len(cpus)} x {DATA_PAGES} locked pages (ulimit -l, kernel.perf_event_mlock_kb)"
            self.reason = f"no samples: {why if refused else locked}"
        self.begin_ns = time.monotonic_ns()

    def tick(self) -> None:
        """Empty the buffers."""
        found = (parse_record(data) for page in self._pages for data in page.drain())
        self.records += (record for record in found if record is not None)
