# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The part of setebench that touches hardware: stitching probes from snippets, running them, reading the clock.

Everything here is called by `setebench.core`; nothing else imports it.
"""

from libc.errno cimport errno
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, strerror

import numpy as np

from setebench.errors import ProbeError, UnsupportedError
from setebench.kernels import KERNELS as STREAM_KERNELS, array_spacing
from setebench.probe import Kind


cdef extern from "snippets.h":
    struct setebench_field:
        int32_t kind
        int32_t end

    struct setebench_snippet:
        const char *name
        const char *description
        const char *feature
        const unsigned char *code
        int32_t code_bytes
        int32_t touches
        int32_t size
        int32_t base
        setebench_field fields[3]

    struct setebench_meeting:
        int64_t arrived
        int64_t threads

    const setebench_snippet *setebench_snippets_begin() nogil
    const setebench_snippet *setebench_snippets_end() nogil


cdef extern from "guard.h":
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

    int setebench_guard_install() nogil
    void setebench_guard_remove() nogil
    int setebench_guard_run(setebench_call *) nogil
    void setebench_meeting_abandon(setebench_meeting *) nogil


cdef extern from "sys/mman.h":
    void *mmap(void *, size_t, int, int, int, long) nogil
    int mprotect(void *, size_t, int) nogil
    int munmap(void *, size_t) nogil
    int PROT_NONE, PROT_READ, PROT_WRITE, PROT_EXEC
    int MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE
    void *MAP_FAILED


cdef extern from *:
    """
    #include <time.h>
    #include <stdint.h>
    #include <cpuid.h>
    #include <x86intrin.h>

    static uint64_t setebench_rdtsc(void) { _mm_lfence(); uint64_t t = __rdtsc(); _mm_lfence(); return t; }

    static uint64_t setebench_monotonic_ns(void)
    {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC_RAW, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    }

    static void setebench_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t *r)
    {
        __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
    }
    """
    uint64_t setebench_rdtsc() nogil
    uint64_t setebench_monotonic_ns() nogil
    void setebench_cpuid(uint32_t, uint32_t, uint32_t *) nogil


cdef enum:
    BASE_REGISTERS = 5  # rsi rdi r8 r9 r10
    COMPUTED = 5  # variant index of rcx
    VARIANTS = 6
    KEPT_VALUES = 8
    PAGE = 4096
    STUB_ALIGN = 64
    IP_SPAN = 1 << 26
    FIELD_OFFSET = 1
    FIELD_COUNT = 2
    FIELD_SLOT = 3
    FIELD_ROW = 4
    FIELD_TARGET = 5
    FIELD_RESULT = 6
    FIELD_ROW_SIZE = 7
    FIELD_RESULT_SIZE = 8
    FIELD_SPACING = 9
    FAMILIES = 192
    KERNELS = 32
    BLOCK_BYTES = 256  # of every array, a round of a streaming kernel


# ---- the snippet table -----------------------------------------------------------------------------------------------


def snippets():
    """Every snippet as a dict: name, description, feature, touches, size, base, code (bytes), fields [(kind, end)]."""
    cdef const setebench_snippet *s = setebench_snippets_begin()
    found = []
    while s < setebench_snippets_end():
        found.append({
            "name": s.name.decode(), "description": s.description.decode(), "feature": s.feature.decode(),
            "touches": s.touches, "size": s.size, "base": s.base, "code": (<const char *>s.code)[:s.code_bytes],
            "fields": [(s.fields[i].kind, s.fields[i].end) for i in range(3) if s.fields[i].kind],
        })
        s += 1
    return found


cdef struct Family:
    const setebench_snippet *by_base[VARIANTS]   # [0] also serves snippets without a base
    bint available


cdef Family families[FAMILIES]
cdef dict family_numbers = {}


def prepare(features):
    """Index the snippets by name, and note which of them this CPU can run. `features` are flags of /proc/cpuinfo.
    Idempotent; must be called before anything is stitched."""
    cdef const setebench_snippet *s = setebench_snippets_begin()
    cdef int number
    while s < setebench_snippets_end():
        name = s.name.decode()
        if name not in family_numbers:
            if len(family_numbers) == FAMILIES:
                raise UnsupportedError("more snippets than the core has room for; raise FAMILIES")
            family_numbers[name] = len(family_numbers)
        number = family_numbers[name]
        families[number].by_base[s.base if s.base >= 0 else 0] = s
        feature = s.feature.decode()
        families[number].available = not feature or feature in features
        s += 1
    _fill_kinds()


def available(name):
    """Whether this CPU runs the snippet of that name."""
    return name in family_numbers and bool(families[family_numbers[name]].available)


cdef int number_of(str name) except -1:
    if name not in family_numbers:
        raise UnsupportedError(f"no snippet {name!r} in this build")
    return family_numbers[name]


# Family numbers by operation, so that stitching looks nothing up by name.
cdef int load_family[65]
cdef int store_family[65]
cdef int chase_family[65]
cdef int prefetch_family[5]
cdef int flush_family[3]
cdef int fence_family[4]
cdef int start_family[5]
cdef int stop_family[5]
cdef int multiply_family[2]
cdef int stream_family[KERNELS][65]
cdef int keep_family[KEPT_VALUES]
cdef int use_family[KEPT_VALUES]
cdef int enter_, base_, touch_, begin_, result_, next_, leave_, vzeroupper_, address_base_, address_row_
cdef int address_offset_, address_advance_, depend_latest_, depend_vector_, repeat_begin_, repeat_end_
cdef int call_, return_, barrier_, wait_, nop_, add_, transfer_, dither_


cdef _fill_kinds():
    global enter_, base_, touch_, begin_, result_, next_, leave_, vzeroupper_, address_base_, address_row_
    global address_offset_, address_advance_, depend_latest_, depend_vector_, repeat_begin_, repeat_end_
    global call_, return_, barrier_, wait_, nop_, add_, transfer_, dither_
    from setebench.probe import BRACKETS, FENCES, FLUSHES, HINTS
    for size in (8, 16, 32, 64):
        load_family[<int>size] = number_of(f"load{size}")
        store_family[<int>size] = number_of(f"store{size}")
        chase_family[<int>size] = number_of(f"chase{size}")
    for index, name in enumerate(HINTS):
        prefetch_family[<int>index] = number_of(f"prefetch.{name}")
    for index, name in enumerate(FLUSHES):
        flush_family[<int>index] = number_of(f"flush.{name}")
    for index, name in enumerate(FENCES):
        fence_family[<int>index] = number_of(f"fence.{name}")
    for index, name in enumerate(BRACKETS):
        start_family[<int>index] = number_of(f"start.{name}")
        stop_family[<int>index] = number_of(f"stop.{name}")
    if len(STREAM_KERNELS) > KERNELS:
        raise UnsupportedError("more streaming kernels than the core has room for; raise KERNELS")
    for index, kernel in enumerate(STREAM_KERNELS.values()):
        if not kernel.accesses:
            stream_family[<int>index][0] = number_of(f"stream.{kernel.name}")
            continue
        for size in (8, 16, 32, 64):
            stream_family[<int>index][<int>size] = number_of(f"stream.{kernel.name}.{size}")
    multiply_family[0] = number_of("multiply.free")
    multiply_family[1] = number_of("multiply.chained")
    for index in range(KEPT_VALUES):
        keep_family[<int>index] = number_of(f"depend.keep{index + 8}")
        use_family[<int>index] = number_of(f"depend.use{index + 8}")
    enter_, base_ = number_of("driver.enter"), number_of("driver.base")
    touch_, begin_ = number_of("driver.touch"), number_of("driver.begin")
    result_, next_, leave_ = number_of("driver.result"), number_of("driver.next"), number_of("driver.leave")
    vzeroupper_ = number_of("driver.vzeroupper")
    address_base_, address_row_ = number_of("address.base"), number_of("address.row")
    address_offset_, address_advance_ = number_of("address.offset"), number_of("address.advance")
    depend_latest_, depend_vector_ = number_of("depend.latest"), number_of("depend.vector")
    repeat_begin_, repeat_end_ = number_of("repeat.begin"), number_of("repeat.end")
    call_, return_ = number_of("call"), number_of("return")
    barrier_, wait_, nop_, add_ = number_of("barrier"), number_of("wait"), number_of("nop"), number_of("add")
    transfer_, dither_ = number_of("transfer"), number_of("dither")


# Kind values as C constants, so that the stitcher's inner loop compares integers.
cdef int LOAD = Kind.LOAD, STORE = Kind.STORE, PREFETCH = Kind.PREFETCH, FLUSH = Kind.FLUSH, FENCE = Kind.FENCE
cdef int WAIT = Kind.WAIT, NOP = Kind.NOP, MULTIPLY = Kind.MULTIPLY, ADD = Kind.ADD, TRANSFER = Kind.TRANSFER
cdef int START = Kind.START, STOP = Kind.STOP, REPEAT = Kind.REPEAT, END = Kind.END, CHASE = Kind.CHASE
cdef int BARRIER = Kind.BARRIER, STREAM = Kind.STREAM


# ---- stitching -------------------------------------------------------------------------------------------------------

cdef struct Fields:
    int32_t offset
    int32_t count
    int32_t slot
    int32_t row
    int32_t target
    int32_t result
    int32_t row_size
    int32_t result_size
    int32_t spacing


cdef class Stitched:
    """One probe as machine code in memory of its own, which is never writable and executable at once.

    `operations_begin` is where the code of operation 0 begins and `operation_ends[i]` where that of operation i ends,
    in bytes from `address`.
    """

    cdef unsigned char *memory      # the whole mapping
    cdef size_t mapped_bytes
    cdef unsigned char *code        # where the driver begins
    cdef readonly int code_bytes
    cdef readonly int bases
    cdef readonly int intervals
    cdef readonly int dithers       # dithered starts in a repetition
    cdef readonly int operations_begin
    cdef readonly list operation_ends
    cdef readonly list stubs        # (address, bytes, operation) of shared instruction addresses
    cdef bytearray building
    cdef unsigned char *out
    cdef Py_ssize_t used, room
    cdef list calls                 # (position after the call's displacement, stub index)

    def __cinit__(self):
        self.memory = NULL
        self.building = bytearray(4096)
        self.out = self.building
        self.room = 4096
        self.operation_ends = []
        self.stubs = []
        self.calls = []

    def __dealloc__(self):
        if self.memory != NULL:
            munmap(self.memory, self.mapped_bytes)

    def __init__(self, const int64_t[:, ::1] rows, int bases, int intervals, list placed, int bracket, bint together):
        """Stitch the probe whose table is `rows`. `placed` holds for every shared instruction address its low bits or
        None; `bracket` is the one that starts without a choice of their own use; `together` puts a barrier before every
        repetition. Raises `ProbeError`, or `UnsupportedError` for a snippet that this CPU can't run."""
        self.bases = bases
        self.intervals = intervals
        self._driver_and_body(rows, len(placed), bracket, together)
        self._settle(self._stub_operations(rows, len(placed)), placed)
        self.building = None
        self.out = NULL

    @property
    def address(self):
        """Address of the code."""
        return <uintptr_t>self.code

    def code_at(self):
        """The bytes of the driver and the probe, for disassembly."""
        return (<const char *>self.code)[:self.code_bytes]

    cdef int _emit(self, int family, int base, Fields *fields) except -1:
        cdef const setebench_snippet *s = families[family].by_base[base]
        cdef unsigned char *to
        cdef int i, kind
        cdef int32_t value
        if not families[family].available:
            raise UnsupportedError(f"this CPU has no {s.feature.decode()}, which {s.description.decode()!r} needs")
        if self.used + s.code_bytes > self.room:
            self._grow(s.code_bytes)
        to = self.out + self.used
        memcpy(to, s.code, s.code_bytes)
        self.used += s.code_bytes
        for i in range(3):
            kind = s.fields[i].kind
            if kind == 0:
                break
            if kind == FIELD_OFFSET:
                value = fields.offset
            elif kind == FIELD_COUNT:
                value = fields.count
            elif kind == FIELD_SLOT:
                value = fields.slot
            elif kind == FIELD_ROW:
                value = fields.row
            elif kind == FIELD_TARGET:
                value = fields.target - <int32_t>self.used
            elif kind == FIELD_RESULT:
                value = fields.result
            elif kind == FIELD_ROW_SIZE:
                value = fields.row_size
            elif kind == FIELD_RESULT_SIZE:
                value = fields.result_size
            else:
                value = fields.spacing
            memcpy(to + s.fields[i].end - 4, &value, 4)
        return 0

    cdef int _grow(self, Py_ssize_t more) except -1:
        self.room = max(2 * self.room, self.used + more)
        self.out = NULL
        larger = bytearray(self.room)
        larger[:self.used] = memoryview(self.building)[:self.used]
        self.building = larger
        self.out = self.building
        return 0

    cdef int _driver_and_body(self, const int64_t[:, ::1] rows, int stubs, int bracket, bint together) except -1:
        cdef Fields f
        cdef int i, head
        cdef bint wide = False
        for i in range(rows.shape[0]):
            wide = wide or rows[i, 3] >= 32
        f.row_size = 8 * self.bases
        f.result_size = 8 * self.intervals
        self._emit(enter_, 0, &f)
        # clears the upper halves of xmm1 too, which wide stores store; where it lacks, the body says what needs it
        if wide and families[vzeroupper_].available:
            self._emit(vzeroupper_, 0, &f)
        head = self.used
        for i in range(min(self.bases, BASE_REGISTERS)):
            f.row = 8 * i
            self._emit(base_, i, &f)
        for i in range(8 * BASE_REGISTERS, 8 * self.bases + 56 if self.bases > BASE_REGISTERS else 0, 64):
            f.row = min(i, 8 * self.bases - 8)
            self._emit(touch_, 0, &f)
        if together:
            self._emit(barrier_, 0, &f)
        self._emit(begin_, 0, &f)
        self.operations_begin = self.used
        self._body(rows, bracket, together)
        if wide:
            self._emit(vzeroupper_, 0, &f)
        for i in range(self.intervals):
            f.slot = f.result = 8 * i
            self._emit(result_, 0, &f)
        f.target = head
        self._emit(next_, 0, &f)
        self._emit(leave_, 0, &f)
        self.code_bytes = self.used
        return 0

    cdef int _body(self, const int64_t[:, ::1] rows, int bracket, bint together) except -1:
        cdef Fields f
        cdef int i, kind, variant, loop = 0, advance = 0
        cdef int64_t _
        cdef int32_t[::1] kept = kept_values(rows)
        for i in range(rows.shape[0]):
            kind, variant = <int>rows[i, 0], <int>rows[i, 4]
            f.count = <int32_t>rows[i, 5]
            f.slot = 8 * <int32_t>rows[i, 8]
            if kind <= FLUSH or kind == CHASE:
                self._access(rows, i, kept, advance)
            elif kind == STREAM:
                self._stream(rows, i, advance)
            elif kind == FENCE:
                self._emit(fence_family[variant], 0, &f)
            elif kind == WAIT:
                self._emit(wait_, 0, &f)
            elif kind == START:
                if rows[i, 9]:
                    self._emit(dither_, 0, &f)
                    self.dithers += 1
                self._emit(start_family[variant if variant >= 0 else bracket], 0, &f)
            elif kind == STOP:
                self._emit(stop_family[variant if variant >= 0 else bracket], 0, &f)
            elif kind == REPEAT:
                advance = <int>rows[i, 2]
                self._emit(repeat_begin_, 0, &f)
                loop = self.used
            elif kind == END:
                f.offset, f.target = advance, loop
                self._emit(repeat_end_, 0, &f)
                advance = 0
            elif kind == BARRIER:
                if together:
                    self._emit(barrier_, 0, &f)
            else:
                for _ in range(rows[i, 5]):
                    self._emit(counted_family(kind, variant), 0, &f)
            self.operation_ends.append(self.used)
        return 0

    cdef int _stream(self, const int64_t[:, ::1] rows, int i, int advance) except -1:
        cdef Fields f
        f.row = 8 * <int32_t>rows[i, 1]
        f.offset = <int32_t>rows[i, 2]
        f.count = <int32_t>(rows[i, 5] // BLOCK_BYTES)
        f.spacing = <int32_t>array_spacing(rows[i, 5])
        self._base_address(<int>rows[i, 1], &f)
        if advance:
            self._emit(address_advance_, 0, &f)
        self._emit(address_offset_, 0, &f)
        self._emit(stream_family[rows[i, 4]][rows[i, 3]], 0, &f)
        return 0

    cdef int _base_address(self, int base, Fields *f) except -1:
        """Code that puts a base into the register of computed addresses."""
        self._emit(address_row_ if base >= BASE_REGISTERS else address_base_, 0 if base >= BASE_REGISTERS else base, f)
        return 0

    cdef int _access(self, const int64_t[:, ::1] rows, int i, int32_t[::1] kept, int advance) except -1:
        cdef Fields f
        cdef int base = <int>rows[i, 1], ip = <int>rows[i, 6], after = <int>rows[i, 7], kind = <int>rows[i, 0]
        cdef bint computed = base >= BASE_REGISTERS or advance != 0 or ip >= 0 or after >= 0
        f.offset = <int32_t>rows[i, 2]
        f.count = <int32_t>rows[i, 5]
        f.row = 8 * base
        if computed:
            self._base_address(base, &f)
            if advance:
                self._emit(address_advance_, 0, &f)
            if after >= 0:
                self._emit(depend_latest_ if kept[after] < 0 else use_family[kept[after]], 0, &f)
            base = COMPUTED
        if ip >= 0:
            self._emit(address_offset_, 0, &f)
            f.target = 0
            self._emit(call_, 0, &f)
            self.calls.append((self.used, ip))
        else:
            self._emit(access_family(rows, i), base, &f)
        if kept[i] != NOT_NEEDED:
            if rows[i, 3] > 8 and kind == LOAD:
                self._emit(depend_vector_, 0, &f)
            if kept[i] >= 0:
                self._emit(keep_family[kept[i]], 0, &f)
        return 0

    cdef list _stub_operations(self, const int64_t[:, ::1] rows, int stubs):
        """For every shared instruction address the first operation that uses it; the others must be alike."""
        cdef int i, ip
        cdef list first = [-1] * stubs
        for i in range(rows.shape[0]):
            ip = <int>rows[i, 6]
            if ip < 0:
                continue
            if first[ip] < 0:
                first[ip] = i
            elif access_family(rows, i) != access_family(rows, first[ip]):
                raise ProbeError("accesses that share an instruction address must be of the same kind, size and hint")
        if stubs:
            self._write_stubs(rows, first)
        return first

    cdef int _write_stubs(self, const int64_t[:, ::1] rows, list first) except -1:
        cdef Fields f
        cdef int begin, i
        f.offset = 0
        for i in first:
            while self.used % STUB_ALIGN:
                self._emit(nop_, 0, &f)
            begin = self.used
            f.count = <int32_t>rows[i, 5]
            self._emit(access_family(rows, i), COMPUTED, &f)
            self._emit(return_, 0, &f)
            self.stubs.append((begin, self.used - begin, i))
        return 0

    cdef int _settle(self, list first, list placed) except -1:
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

    cdef int _protect(self, uintptr_t address, size_t size, bint writable) except -1:
        """Set the rights of every page that holds some of these bytes."""
        cdef uintptr_t first = address // PAGE * PAGE
        cdef uintptr_t behind = (address + size + PAGE - 1) // PAGE * PAGE
        if mprotect(<void *>first, behind - first, PROT_READ | (PROT_WRITE if writable else PROT_EXEC)):
            reason = strerror(errno).decode()
            raise UnsupportedError(f"the system does not let this process make code executable: {reason}")
        return 0

    def run(self, const int64_t[:, ::1] rows, int64_t[:, ::1] results, const int32_t[::1] dither, Meeting meeting=None):
        """Run one repetition per row. Ticks go to `results`, shape (rows, intervals); `dither` holds the waits.

        The guard must be installed. Returns None, or (signal, operation, data address) of the fault that ended it."""
        cdef setebench_call call
        cdef int error
        if rows.shape[0] == 0:
            return None
        call.code = <setebench_stitched>self.code
        call.code_end = <uintptr_t>self.code + self.code_bytes
        call.rows = &rows[0, 0] if self.bases else NULL
        call.results = &results[0, 0] if self.intervals else NULL
        call.repetitions = rows.shape[0]
        call.dither = &dither[0] if dither.shape[0] else NULL
        call.meeting = meeting.place if meeting is not None else NULL
        with nogil:
            error = setebench_guard_run(&call)
        if error:
            raise UnsupportedError(f"no signal stack: {strerror(error).decode()}")
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


cdef int counted_family(int kind, int variant) noexcept:
    if kind == NOP:
        return nop_
    if kind == ADD:
        return add_
    if kind == TRANSFER:
        return transfer_
    return multiply_family[variant]


cdef int access_family(const int64_t[:, ::1] rows, int i) except -1:
    cdef int kind = <int>rows[i, 0]
    if kind == LOAD:
        return load_family[rows[i, 3]]
    if kind == STORE:
        return store_family[rows[i, 3]]
    if kind == CHASE:
        return chase_family[rows[i, 3]]
    if kind == PREFETCH:
        return prefetch_family[rows[i, 4]]
    return flush_family[rows[i, 4]]


cdef enum:
    NOT_NEEDED = -2
    IN_RAX = -1


cdef int32_t[::1] kept_values(const int64_t[:, ::1] rows):
    """For every load where its value is kept for a later address: a register's number, IN_RAX where the only reader
    stands right behind it, NOT_NEEDED where no address depends on it."""
    cdef int i, after, operations = <int>rows.shape[0]
    cdef int32_t[::1] last = np.full(operations, -1, dtype=np.int32)
    cdef int32_t[::1] slots = np.full(operations, NOT_NEEDED, dtype=np.int32)
    cdef bint any_needed = False
    for i in range(operations):
        after = <int>rows[i, 7]
        if after >= 0:
            last[after] = i
            any_needed = True
    if any_needed:
        allot(slots, last)
    return slots


cdef int allot(int32_t[::1] slots, int32_t[::1] last) except -1:
    cdef int i, r
    cdef int32_t busy_until[KEPT_VALUES]
    for r in range(KEPT_VALUES):
        busy_until[r] = -1
    for i in range(slots.shape[0]):
        if last[i] < 0:
            continue
        if last[i] == i + 1:
            slots[i] = IN_RAX
            continue
        for r in range(KEPT_VALUES):
            if busy_until[r] <= i:
                slots[i] = r
                busy_until[r] = last[i]
                break
        else:
            raise ProbeError(f"more than {KEPT_VALUES} loads at once have addresses that depend on them later")
    return 0


# ---- meetings, guard, clock ------------------------------------------------------------------------------------------

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


def guard_install():
    """Take over the fault signals; see guard.h. Raises `UnsupportedError`."""
    cdef int error = setebench_guard_install()
    if error:
        raise UnsupportedError(f"fault signals can't be handled: {strerror(error).decode()}")


def guard_remove():
    """Give the fault signals back."""
    setebench_guard_remove()


def cpuid(uint32_t leaf, uint32_t subleaf=0):
    """The registers (eax, ebx, ecx, edx) of a cpuid leaf."""
    cdef uint32_t r[4]
    setebench_cpuid(leaf, subleaf, r)
    return r[0], r[1], r[2], r[3]


def cpuid_ticks(int calls):
    """Ticks of each of `calls` cpuid instructions; thousands where a hypervisor catches them."""
    cdef uint32_t r[4]
    cdef uint64_t[::1] ticks = np.empty(calls, dtype=np.uint64)
    cdef uint64_t before
    cdef int i
    for i in range(calls):
        before = setebench_rdtsc()
        setebench_cpuid(0, 0, r)
        ticks[i] = setebench_rdtsc() - before
    return np.asarray(ticks).astype(np.int64)


def clock_pair(int tries):
    """(ticks, nanoseconds) read as close together as `tries` attempts allow: one point to find the tick rate from."""
    cdef uint64_t before, after, ns, best = <uint64_t>-1, best_ticks = 0, best_ns = 0
    cdef int _
    with nogil:
        for _ in range(tries):
            before = setebench_rdtsc()
            ns = setebench_monotonic_ns()
            after = setebench_rdtsc()
            if after - before < best:
                best = after - before
                best_ticks = before + (after - before) // 2
                best_ns = ns
    return best_ticks, best_ns
