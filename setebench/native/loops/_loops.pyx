# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled loops: choosing a version and timing it. Called by `setebench.native.loops` alone.

Loops count as in `setebench.loops.LOOP_NAMES`, hints as in `setebench.loops.HINTS` from 1 on; 0 is no stage."""

cimport cython
from libc.stdint cimport int64_t, uintptr_t

cdef extern from "loops.h" nogil:
    enum:
        SETEBENCH_LOOPS
        SETEBENCH_HINTS
        SETEBENCH_ARRAYS
        SETEBENCH_SIZES
    struct setebench_loop:
        void *array[6]
        int64_t size[4]
        int64_t first
        int64_t count
        int64_t near
        int64_t far
        int64_t result
    ctypedef void (*setebench_version)(setebench_loop *loop)
    setebench_version setebench_versions[8][6][6]
    setebench_version setebench_compilers[8]
    int64_t setebench_loop_ticks(setebench_version version, setebench_loop *loop, int64_t passes, int64_t before,
                                 int64_t lead)


@cython.final
cdef class Version:
    """One version of a loop: with hints for the L1 and the L2 stage, or with what the compiler puts in itself.

    `address` is where its code begins, for disassembly; 0 where the compiler has no such option."""

    cdef setebench_version code

    def __init__(self, int loop, int l1_hint, int l2_hint, bint compiler=False):
        """Raises `IndexError` for a loop or a hint that isn't there."""
        if not (0 <= loop < SETEBENCH_LOOPS and 0 <= l1_hint < SETEBENCH_HINTS and 0 <= l2_hint < SETEBENCH_HINTS):
            raise IndexError(f"no version of loop {loop} with hints {l1_hint} and {l2_hint}")
        self.code = setebench_compilers[loop] if compiler else setebench_versions[loop][l1_hint][l2_hint]

    @property
    def address(self):
        return <uintptr_t>self.code


@cython.final
cdef class Operands:
    """What a loop runs on. The arrays themselves are kept by whoever made this."""

    cdef setebench_loop loop

    def __init__(self, addresses, sizes):
        """Addresses of arrays and sizes, in the order that the loop's comment in bodies.h gives them."""
        if len(addresses) > SETEBENCH_ARRAYS or len(sizes) > SETEBENCH_SIZES:
            raise IndexError("a loop has no room for so many arrays or sizes")
        for index, address in enumerate(addresses):
            self.loop.array[<int>index] = <void *><uintptr_t>address
        for index, size in enumerate(sizes):
            self.loop.size[<int>index] = size

    def run(self, Version version, int64_t first, int64_t count, int64_t l1_distance, int64_t l2_distance,
            int64_t passes=1, int64_t before=0, int64_t lead=0):
        """Go `passes` times through `count` iterations from `first` on: ticks of all passes, and the loop's sum. Before
        that, and not timed, through `lead` iterations from `before` on."""
        cdef int64_t ticks
        cdef setebench_loop *loop = &self.loop
        cdef setebench_version code = version.code
        if code == NULL:
            raise ValueError("this version was not compiled")
        loop.first, loop.count, loop.near, loop.far, loop.result = first, count, l1_distance, l2_distance, 0
        with nogil:
            ticks = setebench_loop_ticks(code, loop, passes, before, lead)
        return ticks, loop.result
