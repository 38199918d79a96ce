# Writing a probe: snippets one after the other, their fields filled in.


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


cdef class Writer:
    """Machine code that grows snippet by snippet, in memory that is not executable."""

    cdef bytearray building
    cdef unsigned char *out
    cdef Py_ssize_t used, room

    def __cinit__(self):
        self.building = bytearray(4096)
        self.out = self.building
        self.room = 4096

    @cython.final
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

    @cython.final
    cdef int _grow(self, Py_ssize_t more) except -1:
        self.room = max(2 * self.room, self.used + more)
        self.out = NULL
        larger = bytearray(self.room)
        larger[:self.used] = memoryview(self.building)[:self.used]
        self.building = larger
        self.out = self.building
        return 0


cdef int counted_family(int kind, int variant) noexcept:
    if kind == NOP:
        return nop_
    if kind == ADD:
        return add_
    if kind == TRANSFER:
        return transfer_
    return multiply_family[variant]


cdef class Program(Writer):
    """One probe as machine code, still to be put where it runs: the driver, the operations, and behind them the shared
    instruction addresses."""

    cdef readonly int code_bytes
    cdef readonly int bases
    cdef readonly int intervals
    cdef readonly int dithers       # dithered starts in a repetition
    cdef readonly int operations_begin
    cdef readonly list operation_ends
    cdef readonly list stubs        # (address, bytes, operation) of shared instruction addresses
    cdef list calls                 # (position after the call's displacement, stub index)

    def __cinit__(self):
        self.operation_ends = []
        self.stubs = []
        self.calls = []

    @cython.final
    cdef int _driver_and_body(self, const int64_t[:, ::1] rows, int bracket, bint together) except -1:
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

    @cython.final
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

    @cython.final
    cdef int _stream(self, const int64_t[:, ::1] rows, int i, int advance) except -1:
        cdef Fields f
        f.row = 8 * <int32_t>rows[i, 1]
        f.offset = <int32_t>rows[i, 2]
        f.count = <int32_t>(rows[i, 5] // round_bytes(rows[i, 3], rows[i, 9]))
        f.spacing = <int32_t>array_spacing(rows[i, 5])
        self._base_address(<int>rows[i, 1], &f)
        if advance:
            self._emit(address_advance_, 0, &f)
        self._emit(address_offset_, 0, &f)
        self._fill_line(&f)  # so that the loop, which the snippet aligns, begins a line of instructions
        self._emit(stream_family[rows[i, 4]][rows[i, 9]][rows[i, 3]], 0, &f)
        return 0

    @cython.final
    cdef int _fill_line(self, Fields *f) except -1:
        """No-operations up to the next multiple of `LINE`: few long ones, as some are run."""
        while self.used % LINE:
            self._emit(long_nop_ if LINE - self.used % LINE >= 8 else nop_, 0, f)
        return 0

    @cython.final
    cdef int _base_address(self, int base, Fields *f) except -1:
        """Code that puts a base into the register of computed addresses."""
        self._emit(address_row_ if base >= BASE_REGISTERS else address_base_, 0 if base >= BASE_REGISTERS else base, f)
        return 0

    @cython.final
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

    @cython.final
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
            elif access_family(rows, i) != access_family(rows, first[ip]):
                raise ProbeError("accesses that share an instruction address must be of the same kind, size and hint")
        if stubs:
            self._write_stubs(rows, first)
        return 0

    @cython.final
    cdef int _write_stubs(self, const int64_t[:, ::1] rows, list first) except -1:
        cdef Fields f
        cdef int begin, i
        f.offset = 0
        for i in first:
            self._fill_line(&f)
            begin = self.used
            f.count = <int32_t>rows[i, 5]
            self._emit(access_family(rows, i), COMPUTED, &f)
            self._emit(return_, 0, &f)
            self.stubs.append((begin, self.used - begin, i))
        return 0
