# Putting a written probe where it can be run, and running it.


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
        setebench_meeting_abandon(self.place)


cdef int _switch(const int32_t *leaders, Py_ssize_t groups, unsigned long request) noexcept nogil:
    """Enable or disable groups of events; 0, or the errno of the first that failed."""
    cdef int error = 0
    cdef Py_ssize_t i
    for i in range(groups):
        if ioctl(leaders[i], request, PERF_IOC_FLAG_GROUP) < 0 and not error:
            error = errno
    return error


cdef class Stitched(Program):
    """One probe as machine code in memory of its own, which is never writable and executable at once.

    `operations_begin` is where the code of operation 0 begins and `operation_ends[i]` where that of operation i ends,
    in bytes from `address`.
    """

    cdef unsigned char *memory      # the whole mapping
    cdef size_t mapped_bytes
    cdef unsigned char *code        # where the driver begins
    cdef bint to_run

    def __cinit__(self):
        self.memory = NULL

    def __dealloc__(self):
        if self.memory != NULL:
            munmap(self.memory, self.mapped_bytes)

    def __init__(self, const int64_t[:, ::1] rows, int bases, int intervals, list placed, int bracket, bint together,
                 bint to_run=True):
        """Stitch the probe whose table is `rows`. `placed` holds for every shared instruction address its low bits or
        None; `bracket` is the one that starts without a choice of their own use; `together` puts a barrier before every
        repetition. Without `to_run` the code is never made executable: it is to be read only. Raises `ProbeError`, or
        `UnsupportedError` for a snippet that this CPU can't run, or where code may not be made executable."""
        self.to_run = to_run
        self.bases = bases
        self.intervals = intervals
        self._driver_and_body(rows, bracket, together)
        self._shared_accesses(rows, len(placed))
        self._settle(placed)
        self.building = None
        self.out = NULL

    @property
    def address(self):
        """Address of the code."""
        return <uintptr_t>self.code

    def code_at(self):
        """The bytes of the driver and the probe, for disassembly."""
        return (<const char *>self.code)[:self.code_bytes]

    @cython.final
    cdef int _settle(self, list placed) except -1:
        """Map memory, write everything where it belongs, and make it executable (and no longer writable)."""
        cdef size_t code_pages = (self.used + PAGE - 1) // PAGE * PAGE
        cdef bint spread = any(bits is not None for bits in placed)
        cdef uintptr_t origin, behind
        cdef int32_t displacement
        cdef list settled = []
        # the page between the span and the code takes the end of an access placed at the span's end
        self.mapped_bytes = code_pages + (2 * IP_SPAN + PAGE if spread else 0)
        self.memory = <unsigned char *>mmap(
            NULL, self.mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0
        )
        if self.memory == <unsigned char *>MAP_FAILED:
            self.memory = NULL
            raise UnsupportedError(f"no memory for the probe's code: {strerror(errno).decode()}")
        origin = (<uintptr_t>self.memory + IP_SPAN - 1) // IP_SPAN * IP_SPAN
        self.code = <unsigned char *>(origin + IP_SPAN + PAGE) if spread else self.memory
        self._protect(<uintptr_t>self.code, code_pages, True)
        memcpy(self.code, self.out, self.used)
        for stub, bits in zip(self.stubs, placed):
            settled.append(self._place(stub, bits, origin, settled))
        self.stubs = settled
        for position, ip in self.calls:
            behind = <uintptr_t>self.code + <uintptr_t>position
            displacement = <int32_t>(<int64_t>(self.stubs[ip][0]) - <int64_t>behind)
            memcpy(self.code + <int>position - 4, &displacement, 4)
        self._protect(<uintptr_t>self.code, code_pages, False)
        for address, size, _ in self.stubs:
            if not <uintptr_t>self.code <= address < <uintptr_t>self.code + code_pages:
                self._protect(address, size, False)
        return 0

    @cython.final
    cdef tuple _place(self, stub, bits, uintptr_t origin, list settled):
        """Copy a stub to the address with these low bits (or leave it behind the code); (address, bytes, operation).
        `settled` are the stubs that have their places."""
        cdef uintptr_t to
        begin, size, operation = stub
        if bits is None:
            return <uintptr_t>self.code + <uintptr_t>begin, size, operation
        to = origin + <uintptr_t>bits
        for other, length, _ in settled:
            if other < to + <uintptr_t>size and to < other + length:
                raise ProbeError(f"two instruction addresses overlap at {bits:#x}")
        self._protect(to, size, True)
        memcpy(<void *>to, self.code + <int>begin, <size_t>size)
        return to, size, operation

    @cython.final
    cdef int _protect(self, uintptr_t address, size_t size, bint writable) except -1:
        """Set the rights of every page that holds some of these bytes."""
        cdef uintptr_t first = address // PAGE * PAGE
        cdef uintptr_t behind = (address + size + PAGE - 1) // PAGE * PAGE
        cdef int rights = PROT_READ | (PROT_WRITE if writable else PROT_EXEC if self.to_run else 0)
        if mprotect(<void *>first, behind - first, rights):
            reason = strerror(errno).decode()
            raise UnsupportedError(f"no probe can be run on this CPU: {NO_MACHINE_CODE} ({reason})")
        return 0

    def run(
        self,
        const int64_t[:, ::1] rows,
        int64_t[:, ::1] results,
        const int32_t[::1] dither,
        Meeting meeting=None,
        const int32_t[::1] counters=None,
        int64_t[:, ::1] spent=None,
    ):
        """Run one repetition per row of complements of addresses. Ticks go to `results`, shape (rows, intervals);
        `dither` holds the waits.
        `counters` are descriptors of leaders of groups of events, which count from here to the end of the run: they are
        switched on and off here, so that hardly anything but the probe is counted. To the row of `spent` of this
        thread's CPU are added the nanoseconds of the run in which it had that, and all that passed.

        The guard must be installed. Returns None, or (signal, operation, data address) of the fault that ended it."""
        cdef setebench_call call
        cdef int error = 0, refused = 0, cpu = sched_getcpu()
        cdef const int32_t *leaders = NULL
        cdef Py_ssize_t groups = 0
        cdef int64_t began, had, passed
        if rows.shape[0] == 0:
            return None
        call.code = <setebench_stitched>self.code
        call.code_end = <uintptr_t>self.code + self.code_bytes
        call.rows = &rows[0, 0] if self.bases else NULL
        call.results = &results[0, 0] if self.intervals else NULL
        call.repetitions = rows.shape[0]
        call.dither = &dither[0] if dither.shape[0] else NULL
        call.meeting = meeting.place if meeting is not None else NULL
        if counters is not None and counters.shape[0]:
            leaders, groups = &counters[0], counters.shape[0]
        with nogil:
            # its memory would come into being while it is counted
            error = setebench_guard_prepare() if groups else 0
            began = setebench_nanoseconds(CLOCK_MONOTONIC)
            had = setebench_nanoseconds(CLOCK_THREAD_CPUTIME_ID)
            refused = _switch(leaders, groups, PERF_EVENT_IOC_ENABLE)
            error = error or setebench_guard_run(&call)
            refused = _switch(leaders, groups, PERF_EVENT_IOC_DISABLE) or refused
            had = setebench_nanoseconds(CLOCK_THREAD_CPUTIME_ID) - had
            passed = setebench_nanoseconds(CLOCK_MONOTONIC) - began
        if spent is not None and 0 <= cpu < spent.shape[0]:
            spent[cpu, 0] += had
            spent[cpu, 1] += passed
        if error:
            raise UnsupportedError(f"no signal stack: {strerror(error).decode()}")
        if refused:
            raise UnsupportedError(f"the kernel does not switch counters: {strerror(refused).decode()}")
        if call.signal:
            return call.signal, self._operation_at(call.fault_instruction), call.fault_address
        return None

    cdef _operation_at(self, uintptr_t instruction):
        offset = <int64_t>instruction - <int64_t>(<uintptr_t>self.code)
        if offset < self.operations_begin:
            return -1
        for operation, end in enumerate(self.operation_ends):
            if offset < end:
                return operation
        return -1
