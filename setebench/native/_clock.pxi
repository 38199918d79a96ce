# The guard over fault signals, and instructions that describe the CPU and its clock.


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
