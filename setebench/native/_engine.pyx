# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The part of setebench that touches hardware: the snippets' bytes, running stitched probes, reading the clock.

Everything here is called by `setebench.native`; nothing else imports it.
"""

from libc.errno cimport errno
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport strerror

import numpy as np

from setebench.errors import UnsupportedError


cdef extern from "engine.h":
    struct setebench_field:
        int32_t kind
        int32_t end

    struct setebench_snippet:
        const char *name
        const char *description
        const char *feature
        const unsigned char *code
        int32_t code_bytes
        int32_t base
        setebench_field fields[3]

    struct setebench_meeting:
        int64_t arrived
        int64_t threads

    ctypedef void (*setebench_stitched)(
        const int64_t *, int64_t *, int64_t, const int32_t *, setebench_meeting *
    ) noexcept nogil

    struct setebench_call:
        setebench_stitched code
        uintptr_t code_end
        const int64_t *rows
        int64_t *results
        int64_t repetitions
        const int32_t *dither
        setebench_meeting *meeting
        int signal
        uintptr_t fault_instruction
        uintptr_t fault_address

    const setebench_snippet *__start_setebench_snippets
    const setebench_snippet *__stop_setebench_snippets
    int setebench_guard_install()
    int setebench_guard_prepare() nogil
    int setebench_guard_run(setebench_call *) nogil


cdef extern from "sys/ioctl.h":
    int ioctl(int, unsigned long, ...) nogil


cdef extern from "linux/perf_event.h":
    unsigned long PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP


cdef extern from "cpuid.h":
    void __cpuid_count(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t) nogil   # sets the last four


cdef extern from "x86intrin.h":
    void _mm_lfence() nogil
    uint64_t __rdtsc() nogil


def snippets():
    """Every snippet as a dict: name, description, feature, base, code (bytes), fields [(kind, end)]."""
    cdef const setebench_snippet *s = __start_setebench_snippets
    found = []
    while s < __stop_setebench_snippets:
        found.append({
            "name": s.name.decode(), "description": s.description.decode(), "feature": s.feature.decode(),
            "base": s.base, "code": (<const char *>s.code)[:s.code_bytes],
            "fields": [(s.fields[i].kind, s.fields[i].end) for i in range(3) if s.fields[i].kind],
        })
        s += 1
    return found


cdef class Meeting:
    """Where the threads of a joint run wait for each other; one per joint run."""

    cdef object memory
    cdef setebench_meeting *place

    def __init__(self, int threads):
        cdef int64_t[::1] words = np.zeros(32, dtype=np.int64)
        cdef uintptr_t address = (<uintptr_t>&words[0] + 127) // 128 * 128   # two lines of its own
        self.memory = words
        self.place = <setebench_meeting *>address
        self.place.threads = threads

    def abandon(self):
        """Let everyone go who waits or will wait here: one of them is not coming."""
        self.place.arrived = INT64_MAX // 2


cdef int _switch(const int32_t *leaders, Py_ssize_t groups, unsigned long request) noexcept nogil:
    """Enable or disable groups of events; 0, or the errno of the first that failed."""
    cdef int error = 0
    cdef Py_ssize_t i
    for i in range(groups):
        if ioctl(leaders[i], request, PERF_IOC_FLAG_GROUP) < 0 and not error:
            error = errno
    return error


def run(uintptr_t code, int64_t code_bytes, const int64_t[:, ::1] rows, int64_t[:, ::1] results,
        const int32_t[::1] dither, Meeting meeting, const int32_t[::1] counters):
    """Run the driver at `code` and the operations behind it, `code_bytes` in all, one repetition per row of complements
    of addresses. Ticks go to `results`, shape (rows, intervals); `dither` holds the waits.

    `counters` are descriptors of leaders of groups of events, which count from here to the end of the run: they are
    switched on and off here, so that hardly anything but the probe is counted.

    The guard must be installed. Returns None, or (signal, instruction, data address) of the fault that ended it."""
    cdef setebench_call call
    cdef int error = 0, refused = 0
    cdef const int32_t *leaders = NULL
    cdef Py_ssize_t groups = 0
    if rows.shape[0] == 0:
        return None
    call.code = <setebench_stitched>code
    call.code_end = code + <uintptr_t>code_bytes
    call.rows = &rows[0, 0] if rows.shape[1] else NULL
    call.results = &results[0, 0] if results.shape[1] else NULL
    call.repetitions = rows.shape[0]
    call.dither = &dither[0] if dither.shape[0] else NULL
    call.meeting = meeting.place if meeting is not None else NULL
    if counters is not None and counters.shape[0]:
        leaders, groups = &counters[0], counters.shape[0]
    with nogil:
        # its memory would come into being while it is counted
        error = setebench_guard_prepare() if groups else 0
        refused = _switch(leaders, groups, PERF_EVENT_IOC_ENABLE)
        error = error or setebench_guard_run(&call)
        refused = _switch(leaders, groups, PERF_EVENT_IOC_DISABLE) or refused
    if error:
        raise UnsupportedError(f"no signal stack: {strerror(error).decode()}")
    if refused:
        raise UnsupportedError(f"the kernel does not switch counters: {strerror(refused).decode()}")
    if call.signal:
        return call.signal, call.fault_instruction, call.fault_address
    return None


# -- the guard over fault signals, and instructions that describe the CPU and its clock --------------------------------


def guard_install():
    """Take over the fault signals; see engine.h. Raises `UnsupportedError`."""
    cdef int error = setebench_guard_install()
    if error:
        raise UnsupportedError(f"fault signals can't be handled: {strerror(error).decode()}")


def cpuid(uint32_t leaf, uint32_t subleaf=0):
    """The registers (eax, ebx, ecx, edx) of a cpuid leaf."""
    cdef uint32_t r[4]
    __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3])
    return r[0], r[1], r[2], r[3]


def rdtsc():
    """The time-stamp counter, once all before is done and before anything after begins."""
    _mm_lfence()
    cdef uint64_t ticks = __rdtsc()
    _mm_lfence()
    return ticks
