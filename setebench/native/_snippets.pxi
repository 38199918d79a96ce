# The snippet table, and which snippet serves which operation.


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
cdef int work_family[NAMES]
cdef int prefetch_family[NAMES]
cdef int flush_family[NAMES]
cdef int fence_family[NAMES]
cdef int start_family[NAMES]
cdef int stop_family[NAMES]
cdef int multiply_family[2]
cdef int stream_family[KERNELS][FORMS][65]
cdef int keep_family[KEPT_VALUES]
cdef int use_family[KEPT_VALUES]
cdef int enter_, base_, touch_, begin_, result_, next_, leave_, vzeroupper_, address_base_, address_row_
cdef int address_offset_, address_advance_, depend_latest_, depend_vector_, repeat_begin_, repeat_end_
cdef int call_, return_, barrier_, wait_, nop_, long_nop_, add_, transfer_, dither_


cdef int number_names(int *numbers, str prefix, tuple names) except -1:
    """Fill in the numbers of the snippets `prefix.name`, in the order of the names, whose indices rows hold."""
    cdef int index
    if len(names) > NAMES:
        raise UnsupportedError(f"more snippets {prefix}.* than the core has room for; raise NAMES")
    for index in range(len(names)):
        numbers[index] = number_of(f"{prefix}.{names[index]}")
    return 0


cdef _fill_kinds():
    global enter_, base_, touch_, begin_, result_, next_, leave_, vzeroupper_, address_base_, address_row_
    global address_offset_, address_advance_, depend_latest_, depend_vector_, repeat_begin_, repeat_end_
    global call_, return_, barrier_, wait_, nop_, long_nop_, add_, transfer_, dither_
    from setebench.probe import BRACKETS, FENCES, FLUSHES, HINTS, WORKS
    for size in (8, 16, 32, 64):
        load_family[<int>size] = number_of(f"load{size}")
        store_family[<int>size] = number_of(f"store{size}")
        chase_family[<int>size] = number_of(f"chase{size}")
    for index in range(1, len(WORKS)):
        work_family[<int>index] = number_of(f"chase8.{WORKS[index]}")
    number_names(prefetch_family, "prefetch", HINTS)
    number_names(flush_family, "flush", FLUSHES)
    number_names(fence_family, "fence", FENCES)
    number_names(start_family, "start", BRACKETS)
    number_names(stop_family, "stop", BRACKETS)
    if len(STREAM_KERNELS) > KERNELS:
        raise UnsupportedError("more streaming kernels than the core has room for; raise KERNELS")
    for index, kernel in enumerate(STREAM_KERNELS.values()):
        for rolled in kernel.forms:
            for size in [8, 16, 32, 64] if kernel.accesses else [0]:
                name = f"stream.{kernel.name}{f'.{size}' if size else ''}{'.rolled' if rolled else ''}"
                stream_family[<int>index][<int>rolled][<int>size] = number_of(name)
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
    transfer_, dither_, long_nop_ = number_of("transfer"), number_of("dither"), number_of("nop.long")


# Kind values as C constants, so that the stitcher's inner loop compares integers.
cdef int LOAD = Kind.LOAD, STORE = Kind.STORE, PREFETCH = Kind.PREFETCH, FLUSH = Kind.FLUSH, FENCE = Kind.FENCE
cdef int WAIT = Kind.WAIT, NOP = Kind.NOP, MULTIPLY = Kind.MULTIPLY, ADD = Kind.ADD, TRANSFER = Kind.TRANSFER
cdef int START = Kind.START, STOP = Kind.STOP, REPEAT = Kind.REPEAT, END = Kind.END, CHASE = Kind.CHASE
cdef int BARRIER = Kind.BARRIER, STREAM = Kind.STREAM
