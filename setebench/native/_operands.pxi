# What an access needs before it is written: its snippet, and where values lie that later addresses depend on.


cdef int access_family(const int64_t[:, ::1] rows, int i) except -1:
    cdef int kind = <int>rows[i, 0]
    if kind == LOAD:
        return load_family[rows[i, 3]]
    if kind == STORE:
        return store_family[rows[i, 3]]
    if kind == CHASE:
        return work_family[rows[i, 4]] if rows[i, 4] > 0 else chase_family[rows[i, 3]]
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
