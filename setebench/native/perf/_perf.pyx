# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Calls of the kernel about performance events. As a module it is a `kernel.Kernel`; see there. The page of an event
and its ring buffer are in `_page.pxi`."""

import os

cimport cython
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy
from posix.types cimport pid_t
from posix.unistd cimport close as c_close


cdef extern from "page.h":
    ctypedef const uint64_t *setebench_counters

    struct perf_event_mmap_page:
        uint32_t lock
        uint32_t index
        int64_t offset
        uint64_t capabilities
        uint16_t pmc_width
        uint64_t data_offset
        uint64_t data_size
        uint64_t data_tail

    uint64_t setebench_generation
    int setebench_page_count(perf_event_mmap_page *, setebench_counters, int64_t *) nogil
    uint64_t setebench_data_head(perf_event_mmap_page *) nogil
    void setebench_data_tail(perf_event_mmap_page *, uint64_t) nogil
    int setebench_watch_forks() nogil
    long setebench_read(int, void *, size_t) nogil
    ctypedef unsigned long pthread_t
    pthread_t pthread_self() nogil

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
    unsigned long PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE, PERF_EVENT_IOC_SET_OUTPUT, PERF_IOC_FLAG_GROUP

cdef extern from "errno.h":
    int E2BIG, EINVAL

cdef enum:
    MOST_EVENTS = 32        # of one group; no PMU has as many counters
    PAGE = 4096
    HEADER = 8              # struct perf_event_header: u32 type, u16 misc, u16 size
    MOST_BYTES = 4096       # of the structure; the kernel refuses a longer one


class PerfError(OSError):
    """A call of the kernel's interface to events failed; `errno` says how, `messages.explain` what to do."""

    def __init__(self, number):
        super().__init__(number, os.strerror(number))


@cython.final
@cython.freelist(8)
cdef class Reading:
    """One read of a group: nanoseconds enabled and running, and one value per event in the order of opening.

    Values stay as the kernel gave them until they are asked for: a reading costs hardly more than its system call."""

    cdef uint64_t words[3 + MOST_EVENTS]    # as read(2) gives a group: count, enabled, running, values

    def __init__(self, enabled, running, values):
        """A reading of these numbers."""
        if len(values) > MOST_EVENTS:
            raise ValueError(f"a group has at most {MOST_EVENTS} events")
        self.words[0], self.words[1], self.words[2] = len(values), enabled, running
        for i, value in enumerate(values):
            self.words[3 + i] = value

    @property
    def enabled(self):
        """Nanoseconds in which the group was to count."""
        return self.words[1]

    @property
    def running(self):
        """Nanoseconds in which it had its counters."""
        return self.words[2]

    @property
    def values(self):
        """Counts, a tuple."""
        cdef Py_ssize_t count = self.words[0], i
        cdef tuple values = PyTuple_New(count)
        for i in range(count):
            number = <object>self.words[3 + i]
            Py_INCREF(number)   # the tuple takes this one
            PyTuple_SET_ITEM(values, i, number)
        return values

    def __eq__(self, other):
        if not isinstance(other, Reading):
            return NotImplemented
        return (self.enabled, self.running, self.values) == (other.enabled, other.running, other.values)

    def __hash__(self):
        return hash((self.enabled, self.running, self.values))

    def __repr__(self):
        return f"Reading({self.enabled}, {self.running}, {self.values})"


def open_event(attributes, pid_t pid=0, int cpu=-1, int group_fd=-1, unsigned long flags=8):
    """See `Kernel.open_event`. A kernel that knows a shorter structure (E2BIG) is asked again in its size, unless the
    event needs fields that this kernel lacks."""
    cdef bytes packed = attributes.packed()
    cdef uint32_t known = 0
    cdef long fd = _open(packed, pid, cpu, group_fd, flags, &known)
    if fd == -E2BIG and attributes.bytes_needed <= known < len(packed):
        fd = _open(attributes.packed(known), pid, cpu, group_fd, flags, &known)
    if fd < 0:
        raise PerfError(-fd)
    return fd


cdef long _open(bytes packed, pid_t pid, int cpu, int group_fd, unsigned long flags, uint32_t *known):
    """The descriptor, or minus errno; `known` becomes the size that the kernel left in the structure."""
    cdef char attributes[MOST_BYTES]
    cdef long fd
    memcpy(attributes, PyBytes_AsString(packed), min(<size_t>MOST_BYTES, <size_t>len(packed)))
    fd = syscall(SYS_perf_event_open, attributes, pid, cpu, group_fd, flags)
    if fd < 0:
        fd = -errno
    memcpy(known, attributes + 4, 4)
    return fd


cdef int _call(int fd, unsigned long request, unsigned long argument) except -1:
    if ioctl(fd, request, argument) < 0:
        raise PerfError(errno)
    return 0


def enable(int fd, bint group=False):
    """See `Kernel.enable`."""
    _call(fd, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP if group else 0)


def disable(int fd, bint group=False):
    """See `Kernel.disable`."""
    _call(fd, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP if group else 0)


def set_output(int fd, int other):
    """Records of `fd` go to the ring buffer of `other` from now on."""
    _call(fd, PERF_EVENT_IOC_SET_OUTPUT, other)


def close(int fd):
    """See `Kernel.close`."""
    if c_close(fd) and errno != EINTR:
        raise PerfError(errno)


cdef inline Py_ssize_t _read(int fd, uint64_t *words, size_t size) except -1:
    cdef Py_ssize_t got = setebench_read(fd, words, size)
    while got == -EINTR:
        got = setebench_read(fd, words, size)
    if got < 0:
        raise PerfError(-got)
    return got


cdef inline Reading _reading(int fd, size_t size):
    """What the kernel says of a group whose reading has `size` bytes."""
    cdef Reading reading = Reading.__new__(Reading)
    cdef Py_ssize_t got = _read(fd, reading.words, size)
    if got == 0:
        return None
    if <size_t>got != size or (3 + reading.words[0]) * 8 != size:
        raise PerfError(EINVAL)   # not the group that was opened
    return reading


@cython.final
cdef class Group:
    """A group of `count` events whose leader is `fd`, to be read again and again."""

    cdef int fd
    cdef size_t size

    def __init__(self, int fd, int count):
        """Raises `PerfError` for a count that no group has. The descriptor stays its owner's."""
        if not 0 < count <= MOST_EVENTS:
            raise PerfError(EINVAL)
        self.fd = fd
        self.size = (3 + count) * 8

    def read(self):
        """See `Kernel.read_values`."""
        return _reading(self.fd, self.size)


def read_values(int fd, int count):
    """See `Kernel.read_values`."""
    if not 0 < count <= MOST_EVENTS:
        raise PerfError(EINVAL)
    return _reading(fd, (3 + count) * 8)


include "_page.pxi"
