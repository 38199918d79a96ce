# cython: language_level=3
"""Calls of the kernel about performance events, and the page of an event with its ring buffer."""

import fcntl
import mmap
import os
from errno import EINVAL
from typing import NamedTuple

from cpython.bytes cimport PyBytes_AsString
from libc.errno cimport errno
from posix.types cimport pid_t


cdef extern from "setebench.h":
    void setebench_region_begin(const char *) nogil
    void setebench_region_end(const char *) nogil

cdef extern from "sys/syscall.h":
    long SYS_perf_event_open
    long syscall(long, ...) nogil

cdef extern from "linux/perf_event.h":
    unsigned long PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP

PAGE = 4096
HEAD, TAIL = 128, 129   # words of the page: the kernel writes the ring buffer up to one, we have read up to the other
HEADER = 8              # struct perf_event_header: u32 type, u16 misc, u16 size
cdef enum:
    CLOSE_ON_EXEC = 8   # PERF_FLAG_FD_CLOEXEC


class Reading(NamedTuple):
    """One read of a group: nanoseconds in which it was to count, those in which it had its counters, and one count per
    event in the order of opening."""

    enabled: int
    running: int
    values: tuple


def open_event(attributes, int group_fd=-1):
    """A descriptor for this event; a program that is started later does not inherit it. Raises OSError, of which
    `messages.explain` says what to do."""
    cdef bytes packed = attributes.packed()
    cdef pid_t pid = attributes.pid
    cdef int cpu = attributes.cpu
    cdef long fd = syscall(SYS_perf_event_open, PyBytes_AsString(packed), pid, cpu, group_fd, CLOSE_ON_EXEC)
    if fd < 0:
        raise OSError(errno, os.strerror(errno))
    return fd


def switch(fd, on):
    """Let the leader `fd` of a group and all its members count, or stop them; the counts stay."""
    request = PERF_EVENT_IOC_ENABLE if on else PERF_EVENT_IOC_DISABLE
    fcntl.ioctl(fd, request, PERF_IOC_FLAG_GROUP)


def read_values(fd, count):
    """Times and values of a group of `count` events (opened with `attributes.GROUP`); None where the kernel gave no
    bytes: the pinned group found no free counter. Raises OSError for another group than that."""
    words = memoryview(os.read(fd, 8 * (3 + count))).cast("Q")
    if len(words) and (len(words) != 3 + count or words[0] != count):
        raise OSError(EINVAL, "not the group that was opened")
    return Reading(words[1], words[2], tuple(words[3:])) if len(words) else None


class Page:
    """The page that the kernel updates about one open event, with its ring buffer where one was mapped."""

    def __init__(self, fd, data_pages=0):
        """Map it and a ring buffer of `data_pages` (a power of two) behind it. Raises OSError (EPERM where locked
        memory is used up)."""
        self._memory = mmap.mmap(fd, (1 + data_pages) * PAGE)

    def close(self):
        """Unmap it. May be called twice."""
        self._memory.close()

    def drain(self):
        """Whole records from the ring buffer, oldest first; they are gone from it then."""
        records, data = [], self._memory[PAGE:]
        with memoryview(self._memory) as memory, memory.cast("Q") as words:
            head, tail = words[HEAD], words[TAIL]
            while tail + HEADER <= head:
                # a record begins at a multiple of 8, so its header is never split; it may go on at the buffer's begin
                at = tail % len(data)
                size = int.from_bytes(data[at + 6:at + 8], "little")
                if size < HEADER or tail + size > head:
                    break
                record = data[at:at + size]
                records.append(record + data[:size - len(record)])
                tail += size
            words[TAIL] = tail
        return records


def region_begin(str name not None):
    """Count for region `name` from here on, on this thread, as C programs do. Costs next to nothing where nothing is
    counted."""
    cdef bytes encoded = name.encode(errors="replace")
    setebench_region_begin(encoded)


def region_end(str name not None):
    """End what this thread began last under this name."""
    cdef bytes encoded = name.encode(errors="replace")
    setebench_region_end(encoded)
