# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Calls of the kernel about performance events, and the page of an event with its ring buffer."""

import os
from typing import NamedTuple

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint16_t, uint64_t
from libc.string cimport memcpy
from posix.types cimport pid_t
from posix.unistd cimport close as c_close
from posix.unistd cimport read


cdef extern from "page.h":
    struct perf_event_mmap_page:
        uint64_t data_tail

    int setebench_page_count(perf_event_mmap_page *, int64_t *) nogil
    uint64_t setebench_data_head(perf_event_mmap_page *) nogil
    void setebench_data_tail(perf_event_mmap_page *, uint64_t) nogil

cdef extern from "sys/ioctl.h":
    int ioctl(int, unsigned long, ...) nogil

cdef extern from "sys/syscall.h":
    long SYS_perf_event_open
    long syscall(long, ...) nogil

cdef extern from "sys/mman.h":
    void *mmap(void *, size_t, int, int, int, long) nogil
    int munmap(void *, size_t) nogil
    int PROT_READ, PROT_WRITE, MAP_SHARED
    void *MAP_FAILED

cdef extern from "linux/perf_event.h":
    unsigned long PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP

cdef extern from "errno.h":
    int EINVAL

cdef enum:
    MOST_EVENTS = 32        # of one group; no PMU has as many counters
    PAGE = 4096
    HEADER = 8              # struct perf_event_header: u32 type, u16 misc, u16 size
    CLOSE_ON_EXEC = 8       # PERF_FLAG_FD_CLOEXEC


class PerfError(OSError):
    """A call of the kernel's interface to events failed; `errno` says how, `messages.explain` what to do."""

    def __init__(self, number):
        super().__init__(number, os.strerror(number))


class Reading(NamedTuple):
    """One read of a group: nanoseconds in which it was to count, those in which it had its counters, and one count per
    event in the order of opening."""

    enabled: int
    running: int
    values: tuple


def open_event(attributes, pid_t pid=0, int cpu=-1, int group_fd=-1):
    """A descriptor for this event of thread `pid` (0: the caller; -1: everybody on `cpu`); a program that is started
    later does not inherit it."""
    cdef bytes packed = attributes.packed()
    cdef long fd = syscall(SYS_perf_event_open, PyBytes_AsString(packed), pid, cpu, group_fd, CLOSE_ON_EXEC)
    if fd < 0:
        raise PerfError(errno)
    return fd


cdef _call(int fd, unsigned long request, bint group):
    if ioctl(fd, request, PERF_IOC_FLAG_GROUP if group else 0) < 0:
        raise PerfError(errno)


def enable(int fd, bint group=False):
    """Let an event count, or with `group` the leader `fd` and all its members."""
    _call(fd, PERF_EVENT_IOC_ENABLE, group)


def disable(int fd, bint group=False):
    """Stop counting; the count stays."""
    _call(fd, PERF_EVENT_IOC_DISABLE, group)


def close(int fd):
    """Close the descriptor; the event goes with it."""
    if c_close(fd) and errno != EINTR:
        raise PerfError(errno)


def read_values(int fd, int count):
    """Times and values of a group of `count` events (opened with `attributes.GROUP`); None where the kernel gave no
    bytes: the pinned group found no free counter."""
    cdef uint64_t words[3 + MOST_EVENTS]
    cdef Py_ssize_t size = (3 + count) * 8, got = -1
    if not 0 < count <= MOST_EVENTS:
        raise PerfError(EINVAL)
    got = read(fd, words, size)
    while got < 0 and errno == EINTR:
        got = read(fd, words, size)
    if got < 0:
        raise PerfError(errno)
    if got == 0:
        return None
    if got != size or <int>words[0] != count:
        raise PerfError(EINVAL)   # not the group that was opened
    return Reading(words[1], words[2], tuple([words[3 + i] for i in range(count)]))


cdef class Page:
    """The page that the kernel updates about one open event, with its ring buffer where one was mapped."""

    cdef perf_event_mmap_page *page
    cdef uint64_t data_bytes

    def __cinit__(self):
        self.page = NULL

    def __init__(self, int fd, int data_pages=0):
        """Map it and a ring buffer of `data_pages` (a power of two) behind it. Raises `PerfError` (EPERM where locked
        memory is used up)."""
        cdef void *mapped = mmap(NULL, <size_t>(1 + data_pages) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
        if mapped == MAP_FAILED:
            raise PerfError(errno)
        self.page = <perf_event_mmap_page *>mapped
        self.data_bytes = <uint64_t>data_pages * PAGE

    def __dealloc__(self):
        self.close()

    def close(self):
        """Unmap it. May be called twice."""
        if self.page != NULL:
            munmap(self.page, PAGE + self.data_bytes)
        self.page = NULL

    cdef int _open(self) except -1:
        if self.page == NULL:
            raise PerfError(EINVAL)
        return 0

    def count(self):
        """The count by rdpmc where the kernel lets the thread that the event counts read it so, now, else None: read
        the descriptor then. Only that thread may call it: a counter index is that of the CPU on which it runs."""
        cdef int64_t value
        self._open()
        return value if setebench_page_count(self.page, &value) else None

    def drain(self):
        """Whole records from the ring buffer, oldest first; they are gone from it then."""
        cdef list records = []
        cdef uint64_t head, tail
        cdef uint16_t size
        self._open()
        head = setebench_data_head(self.page) if self.data_bytes else 0
        tail = self.page.data_tail
        while self.data_bytes and tail + HEADER <= head:
            # a record begins at a multiple of 8, so its header is never split
            memcpy(&size, <char *>self.page + PAGE + tail % self.data_bytes + 6, 2)
            if size < HEADER or tail + size > head:
                break
            records.append(self._bytes(tail % self.data_bytes, size))
            tail += size
        setebench_data_tail(self.page, tail)
        return records

    cdef bytes _bytes(self, uint64_t begin, uint16_t size):
        """A record, in one piece even where it goes on at the buffer's begin."""
        cdef uint64_t first = min(<uint64_t>size, self.data_bytes - begin)
        cdef bytes record = PyBytes_FromStringAndSize(NULL, size)
        memcpy(PyBytes_AsString(record), <char *>self.page + PAGE + begin, first)
        memcpy(PyBytes_AsString(record) + first, <char *>self.page + PAGE, size - first)
        return record
