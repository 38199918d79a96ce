# What the engine takes from C: the snippet table, the guard, memory mapping, the clock; and its own constants.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t


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
    VARIANTS = 6
    KEPT_VALUES = 8
    PAGE = 4096
    LINE = 64  # bytes of instructions
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
    FAMILIES = 256
    KERNELS = 32
    NAMES = 16  # of hints, of ways to flush, of fences, of brackets
    FORMS = 2  # of the loop of a streaming kernel: unrolled, rolled
