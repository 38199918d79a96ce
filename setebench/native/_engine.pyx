# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The part of setebench that touches hardware: stitching probes from snippets, running them, reading the clock.

Everything here is called by `setebench.native`; nothing else imports it.
"""

cimport cython
from libc.errno cimport errno
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset, strerror

import numpy as np

from setebench.errors import NO_MACHINE_CODE, ProbeError, UnsupportedError
from setebench.probe.kernels import KERNELS, array_spacing, round_bytes
from setebench.probe import ACCESS_SIZES, BRACKETS, FENCES, FLUSHES, HINTS, WORKS, Kind


cdef extern from "engine.h":
    enum:
        FIELD_OFFSET, FIELD_COUNT, FIELD_SLOT, FIELD_ROW, FIELD_TARGET, FIELD_RESULT
        FIELD_ROW_SIZE, FIELD_RESULT_SIZE, FIELD_SPACING, FIELD_KINDS

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
    int setebench_guard_install() nogil
    void setebench_guard_remove() nogil
    int setebench_guard_prepare() nogil
    int setebench_guard_run(setebench_call *) nogil
    void setebench_meeting_abandon(setebench_meeting *) nogil


cdef extern from "sys/ioctl.h":
    int ioctl(int, unsigned long, ...) nogil


cdef extern from "linux/perf_event.h":
    unsigned long PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP


cdef extern from "sys/mman.h":
    void *mmap(void *, size_t, int, int, int, long) nogil
    int mprotect(void *, size_t, int) nogil
    int munmap(void *, size_t) nogil
    int PROT_NONE, PROT_READ, PROT_WRITE, PROT_EXEC
    int MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE
    void *MAP_FAILED


cdef extern from *:
    """
    #include <sched.h>
    #include <time.h>
    #include <stdint.h>
    #include <cpuid.h>
    #include <x86intrin.h>

    static uint64_t setebench_rdtsc(void) { _mm_lfence(); uint64_t t = __rdtsc(); _mm_lfence(); return t; }

    static int64_t setebench_nanoseconds(clockid_t clock)
    {
        struct timespec now;
        clock_gettime(clock, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }

    static void setebench_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t *r)
    {
        __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
    }
    """
    uint64_t setebench_rdtsc() nogil
    int CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_THREAD_CPUTIME_ID
    int sched_getcpu() nogil
    int64_t setebench_nanoseconds(int) nogil
    void setebench_cpuid(uint32_t, uint32_t, uint32_t *) nogil


cdef enum:
    BASE_REGISTERS = 5  # rsi rdi r8 r9 r10
    COMPUTED = 5  # variant index of rcx
    KEPT_VALUES = 8  # registers for values that later addresses depend on
    PAGE = 4096
    LINE = 64  # bytes of instructions
    IP_SPAN = 1 << 26
    FAMILIES = 256


# -- snippets ---------------------------------------------------------------------------------------------------------


def snippets():
    """Every snippet as a dict: name, description, feature, touches, size, base, code (bytes), fields [(kind, end)]."""
    cdef const setebench_snippet *s = __start_setebench_snippets
    found = []
    while s < __stop_setebench_snippets:
        found.append({
            "name": s.name.decode(), "description": s.description.decode(), "feature": s.feature.decode(),
            "touches": s.touches, "size": s.size, "base": s.base, "code": (<const char *>s.code)[:s.code_bytes],
            "fields": [(s.fields[i].kind, s.fields[i].end) for i in range(3) if s.fields[i].kind],
        })
        s += 1
    return found


def _operations():
    """Kind, variant, form of loop and size of every operation that is one snippet, with that snippet's name."""
    for size in ACCESS_SIZES:
        for kind in (Kind.LOAD, Kind.STORE, Kind.CHASE):
            yield kind, 0, 0, size, f"{kind.name.lower()}{size}"
    for kind, names in (
        (Kind.PREFETCH, HINTS), (Kind.FLUSH, FLUSHES), (Kind.FENCE, FENCES), (Kind.START, BRACKETS),
        (Kind.STOP, BRACKETS), (Kind.MULTIPLY, ("free", "chained")),
    ):
        for variant, name in enumerate(names):
            yield kind, variant, 0, 0, f"{kind.name.lower()}.{name}"
    for kind in (Kind.WAIT, Kind.NOP, Kind.ADD, Kind.TRANSFER):
        yield kind, 0, 0, 0, kind.name.lower()
    for variant in range(1, len(WORKS)):
        yield Kind.CHASE, variant, 0, 8, f"chase8.{WORKS[variant]}"
    for variant, kernel in enumerate(KERNELS.values()):
        for rolled in kernel.forms:
            for size in ACCESS_SIZES if kernel.accesses else [0]:
                width, form = f".{size}" if size else "", ".rolled" if rolled else ""
                yield Kind.STREAM, variant, rolled, size, f"stream.{kernel.name}{width}{form}"


cdef enum:  # the glue between operations, in the order of GLUE
    ENTER, BASE, TOUCH, BEGIN, RESULT, NEXT, LEAVE, VZEROUPPER, ADDRESS_BASE, ADDRESS_ROW, ADDRESS_OFFSET
    ADDRESS_ADVANCE, LATEST, VECTOR, REPEAT_BEGIN, REPEAT_END, CALL, RETURN, MEET, DITHER, SHORT_NOP, LONG_NOP
    KEEP, USE = KEEP + KEPT_VALUES, GLUES = USE + KEPT_VALUES

GLUE = (
    "driver.enter", "driver.base", "driver.touch", "driver.begin", "driver.result", "driver.next", "driver.leave",
    "driver.vzeroupper", "address.base", "address.row", "address.offset", "address.advance", "depend.latest",
    "depend.vector", "repeat.begin", "repeat.end", "call", "return", "barrier", "dither", "nop", "nop.long",
    *(f"depend.{way}{8 + number}" for way in ("keep", "use") for number in range(KEPT_VALUES)),
)


cdef struct Family:
    const setebench_snippet *by_base[BASE_REGISTERS + 1]   # [0] also serves snippets without a base
    bint available


# Numbers of families, so that stitching looks nothing up by name. Sizes count in 8 bytes.
cdef Family families[FAMILIES]
cdef int operation_family[17][32][2][9]
cdef int glue[GLUES]
cdef dict family_numbers = {}


def prepare(features):
    """Index the snippets by name, and note which of them this CPU can run. `features` are flags of /proc/cpuinfo.
    Idempotent; must be called before anything is stitched."""
    cdef const setebench_snippet *s = __start_setebench_snippets
    cdef int number, kind, variant, form, size
    while s < __stop_setebench_snippets:
        number = family_numbers.setdefault(s.name.decode(), len(family_numbers))
        if number >= FAMILIES:
            raise UnsupportedError("more snippets than the core has room for; raise FAMILIES")
        families[number].by_base[s.base if s.base >= 0 else 0] = s
        feature = s.feature.decode()
        families[number].available = not feature or feature in features
        s += 1
    for kind, variant, form, size, name in _operations():
        operation_family[kind][variant][form][size // 8] = family_numbers[name]
    for number, name in enumerate(GLUE):
        glue[number] = family_numbers[name]


def available(name):
    """Whether this CPU runs the snippet of that name."""
    return name in family_numbers and bool(families[family_numbers[name]].available)


# Kind values as C constants, so that the stitcher's inner loop compares integers.
cdef int LOAD = Kind.LOAD, FLUSH = Kind.FLUSH, FENCE = Kind.FENCE, WAIT = Kind.WAIT, START = Kind.START
cdef int STOP = Kind.STOP, REPEAT = Kind.REPEAT, END = Kind.END, CHASE = Kind.CHASE, BARRIER = Kind.BARRIER
cdef int STREAM = Kind.STREAM


cdef int family_of(const int64_t[:, ::1] rows, int i) noexcept:
    cdef int kind = <int>rows[i, 0]
    return operation_family[kind][rows[i, 4]][rows[i, 9] if kind == STREAM else 0][rows[i, 3] // 8]


# -- stitching --------------------------------------------------------------------------------------------------------


cdef enum:
    NOT_NEEDED = -2
    IN_RAX = -1


cdef int32_t[::1] kept_values(const int64_t[:, ::1] rows):
    """For every load where its value is kept for a later address: a register's number, IN_RAX where the only reader
    stands right behind it, NOT_NEEDED where no address depends on it."""
    cdef int i, r, operations = <int>rows.shape[0]
    cdef int32_t[::1] last = np.full(operations, -1, dtype=np.int32)
    cdef int32_t[::1] slots = np.full(operations, NOT_NEEDED, dtype=np.int32)
    cdef int32_t busy_until[KEPT_VALUES]
    for i in range(operations):
        if rows[i, 7] >= 0:
            last[rows[i, 7]] = i
    memset(busy_until, 0xFF, sizeof(busy_until))
    for i in range(operations):
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
    return slots


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


@cython.final
cdef class Stitched:
    """One probe as machine code in memory of its own, which is never writable and executable at once: the driver, the
    operations, and behind them (or where their bits place them) the shared instruction addresses.

    `operations_begin` is where the code of operation 0 begins and `operation_ends[i]` where that of operation i ends,
    in bytes from `address`. `stubs` are shared instruction addresses: (address, bytes, operation).
    """

    cdef readonly int code_bytes
    cdef readonly int bases
    cdef readonly int intervals
    cdef readonly int dithers       # dithered starts in a repetition
    cdef readonly int operations_begin
    cdef readonly list operation_ends
    cdef readonly list stubs
    cdef list calls                 # (position after the call's displacement, stub index)
    cdef bytearray building         # the code while it grows, `used` bytes of it
    cdef Py_ssize_t used
    cdef int32_t fields[10]         # what patched fields hold next, by kind
    cdef unsigned char *memory      # the whole mapping
    cdef size_t mapped_bytes
    cdef unsigned char *code        # where the driver begins
    cdef bint to_run

    def __dealloc__(self):
        if self.memory != NULL:
            munmap(self.memory, self.mapped_bytes)

    def __init__(self, const int64_t[:, ::1] rows, int bases, int intervals, list placed, int bracket, bint together,
                 bint to_run=True):
        """Stitch the probe whose table is `rows`. `placed` holds for every shared instruction address its low bits or
        None; `bracket` serves starts and stops that name none; `together` puts a barrier before every repetition.
        Without `to_run` the code is never made executable: it is to be read only. Raises `ProbeError`, or
        `UnsupportedError` for a snippet that this CPU can't run, or where code may not be made executable."""
        self.building = bytearray(4096)
        self.operation_ends, self.stubs, self.calls = [], [], []
        self.bases, self.intervals, self.to_run = bases, intervals, to_run
        self._driver_and_body(rows, bracket, together)
        self._shared_accesses(rows, len(placed))
        self._settle(placed)
        self.building = None

    @property
    def address(self):
        """Address of the code."""
        return <uintptr_t>self.code

    def code_at(self):
        """The bytes of the driver and the probe, for disassembly."""
        return (<const char *>self.code)[:self.code_bytes]

    cdef int _emit(self, int family, int base=0) except -1:
        cdef const setebench_snippet *s = families[family].by_base[base]
        cdef unsigned char *to
        cdef int i, kind
        cdef int32_t value
        if not families[family].available:
            raise UnsupportedError(f"this CPU has no {s.feature.decode()}, which {s.description.decode()!r} needs")
        if self.used + s.code_bytes > len(self.building):
            self.building.extend(bytes(len(self.building) + s.code_bytes))
        to = <unsigned char *>self.building + self.used
        memcpy(to, s.code, s.code_bytes)
        self.used += s.code_bytes
        for i in range(3):
            kind = s.fields[i].kind
            if kind == 0:
                break
            value = self.fields[kind] - (<int32_t>self.used if kind == FIELD_TARGET else 0)
            memcpy(to + s.fields[i].end - 4, &value, 4)
        return 0

    cdef int _driver_and_body(self, const int64_t[:, ::1] rows, int bracket, bint together) except -1:
        cdef int32_t *f = self.fields
        cdef int i, head
        cdef bint wide = False
        for i in range(rows.shape[0]):
            wide = wide or rows[i, 3] >= 32
        f[FIELD_ROW_SIZE], f[FIELD_RESULT_SIZE] = 8 * self.bases, 8 * self.intervals
        self._emit(glue[ENTER])
        # clears the upper halves of xmm1 too, which wide stores store; where it lacks, the body says what needs it
        if wide and families[glue[VZEROUPPER]].available:
            self._emit(glue[VZEROUPPER])
        head = <int>self.used
        for i in range(min(self.bases, BASE_REGISTERS)):
            f[FIELD_ROW] = 8 * i
            self._emit(glue[BASE], i)
        for i in range(8 * BASE_REGISTERS, 8 * self.bases + 56 if self.bases > BASE_REGISTERS else 0, 64):
            f[FIELD_ROW] = min(i, 8 * self.bases - 8)
            self._emit(glue[TOUCH])
        if together:
            self._emit(glue[MEET])
        self._emit(glue[BEGIN])
        self.operations_begin = <int>self.used
        self._body(rows, bracket, together)
        if wide:
            self._emit(glue[VZEROUPPER])
        for i in range(self.intervals):
            f[FIELD_SLOT] = f[FIELD_RESULT] = 8 * i
            self._emit(glue[RESULT])
        f[FIELD_TARGET] = head
        self._emit(glue[NEXT])
        self._emit(glue[LEAVE])
        self.code_bytes = <int>self.used
        return 0

    cdef int _body(self, const int64_t[:, ::1] rows, int bracket, bint together) except -1:
        cdef int32_t *f = self.fields
        cdef int i, kind, loop = 0, advance = 0
        cdef int64_t _
        cdef int32_t[::1] kept = kept_values(rows)
        for i in range(rows.shape[0]):
            kind = <int>rows[i, 0]
            f[FIELD_COUNT] = <int32_t>rows[i, 5]
            f[FIELD_SLOT] = 8 * <int32_t>rows[i, 8]
            if kind <= FLUSH or kind == CHASE:
                self._access(rows, i, kept, advance)
            elif kind == STREAM:
                self._stream(rows, i, advance)
            elif kind == START or kind == STOP:
                if kind == START and rows[i, 9]:
                    self._emit(glue[DITHER])
                    self.dithers += 1
                self._emit(operation_family[kind][rows[i, 4] if rows[i, 4] >= 0 else bracket][0][0])
            elif kind == REPEAT:
                advance = <int>rows[i, 2]
                self._emit(glue[REPEAT_BEGIN])
                loop = <int>self.used
            elif kind == END:
                f[FIELD_OFFSET], f[FIELD_TARGET] = advance, loop
                self._emit(glue[REPEAT_END])
                advance = 0
            elif kind == BARRIER:
                if together:
                    self._emit(glue[MEET])
            else:
                for _ in range(1 if kind == FENCE or kind == WAIT else rows[i, 5]):
                    self._emit(family_of(rows, i))
            self.operation_ends.append(self.used)
        return 0

    cdef int _stream(self, const int64_t[:, ::1] rows, int i, int advance) except -1:
        cdef int32_t *f = self.fields
        f[FIELD_COUNT] = <int32_t>(rows[i, 5] // round_bytes(rows[i, 3], rows[i, 9]))
        f[FIELD_SPACING] = <int32_t>array_spacing(rows[i, 5])
        self._computed_base(rows, i, advance)
        self._emit(glue[ADDRESS_OFFSET])
        self._fill_line()  # so that the loop, which the snippet aligns, begins a line of instructions
        self._emit(family_of(rows, i))
        return 0

    cdef int _fill_line(self) except -1:
        """No-operations up to the next multiple of `LINE`: few long ones, as some are run."""
        while self.used % LINE:
            self._emit(glue[LONG_NOP if LINE - self.used % LINE >= 8 else SHORT_NOP])
        return 0

    cdef int _computed_base(self, const int64_t[:, ::1] rows, int i, int advance) except -1:
        """Code that puts an operation's base, advanced, into the register of computed addresses."""
        cdef int base = <int>rows[i, 1]
        self.fields[FIELD_ROW], self.fields[FIELD_OFFSET] = 8 * base, <int32_t>rows[i, 2]
        self._emit(glue[ADDRESS_ROW if base >= BASE_REGISTERS else ADDRESS_BASE], 0 if base >= BASE_REGISTERS else base)
        if advance:
            self._emit(glue[ADDRESS_ADVANCE])
        return 0

    cdef int _access(self, const int64_t[:, ::1] rows, int i, int32_t[::1] kept, int advance) except -1:
        cdef int base = <int>rows[i, 1], ip = <int>rows[i, 6], after = <int>rows[i, 7]
        self.fields[FIELD_OFFSET] = <int32_t>rows[i, 2]
        if base >= BASE_REGISTERS or advance != 0 or ip >= 0 or after >= 0:
            self._computed_base(rows, i, advance)
            base = COMPUTED
            if after >= 0:
                self._emit(glue[LATEST if kept[after] < 0 else USE + kept[after]])
        if ip >= 0:
            self._emit(glue[ADDRESS_OFFSET])
            self._emit(glue[CALL])
            self.calls.append((self.used, ip))
        else:
            self._emit(family_of(rows, i), base)
        if kept[i] != NOT_NEEDED:
            if rows[i, 3] > 8 and rows[i, 0] == LOAD:
                self._emit(glue[VECTOR])
            if kept[i] >= 0:
                self._emit(glue[KEEP + kept[i]])
        return 0

    cdef int _shared_accesses(self, const int64_t[:, ::1] rows, int stubs) except -1:
        """Write for every shared instruction address the first operation that uses it; the others must be alike."""
        cdef int i, ip
        cdef list first = [-1] * stubs
        for i in range(rows.shape[0]):
            ip = <int>rows[i, 6]
            if ip < 0:
                continue
            if first[ip] < 0:
                first[ip] = i
            elif family_of(rows, i) != family_of(rows, first[ip]):
                raise ProbeError("accesses that share an instruction address must be of the same kind, size and hint")
        self.fields[FIELD_OFFSET] = 0
        for i in first:
            self._fill_line()
            begin = self.used
            self.fields[FIELD_COUNT] = <int32_t>rows[i, 5]
            self._emit(family_of(rows, i), COMPUTED)
            self._emit(glue[RETURN])
            self.stubs.append((begin, self.used - begin, i))
        return 0

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
        memcpy(self.code, <unsigned char *>self.building, self.used)
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
        cdef int rights = PROT_READ | (PROT_WRITE if writable else PROT_EXEC if self.to_run else 0)
        if mprotect(<void *>first, behind - first, rights):
            reason = strerror(errno).decode()
            raise UnsupportedError(f"no probe can be run on this CPU: {NO_MACHINE_CODE} ({reason})")
        return 0

    def run(self, const int64_t[:, ::1] rows, int64_t[:, ::1] results, const int32_t[::1] dither,
            Meeting meeting=None, const int32_t[::1] counters=None, int64_t[:, ::1] spent=None):
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
        if offset >= self.operations_begin:
            for operation, end in enumerate(self.operation_ends):
                if offset < end:
                    return operation
        return -1


# -- the guard over fault signals, and instructions that describe the CPU and its clock --------------------------------


def guard_install():
    """Take over the fault signals; see engine.h. Raises `UnsupportedError`."""
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
    cdef uint64_t before
    ticks = []
    for _ in range(calls):
        before = setebench_rdtsc()
        setebench_cpuid(0, 0, r)
        ticks.append(setebench_rdtsc() - before)
    return np.array(ticks, dtype=np.int64)


def clock_pair(int tries):
    """(ticks, nanoseconds) read as close together as `tries` attempts allow: one point to find the tick rate from."""
    cdef uint64_t before, after, best = <uint64_t>-1, best_ticks = 0
    cdef int64_t ns, best_ns = 0
    cdef int _
    with nogil:
        for _ in range(tries):
            before = setebench_rdtsc()
            ns = setebench_nanoseconds(CLOCK_MONOTONIC_RAW)
            after = setebench_rdtsc()
            if after - before < best:
                best = after - before
                best_ticks = before + (after - before) // 2
                best_ns = ns
    return best_ticks, best_ns
