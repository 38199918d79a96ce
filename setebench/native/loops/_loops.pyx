# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled loops: finding a version and timing it. Called by `setebench.native.loops` alone.

Loops count as in `setebench.loops.LOOP_NAMES`, hints as in `setebench.loops.HINTS` from 1 on; 0 is no stage."""

from libc.stdint cimport int64_t, uintptr_t

cdef extern from "loops.h" nogil:
    struct setebench_loop:
        pass
    ctypedef void (*setebench_version)(setebench_loop *loop)
    setebench_version setebench_versions[8][6][6]
    int64_t setebench_loop_ticks(setebench_version version, setebench_loop *loop, int64_t passes, int64_t before,
                                 int64_t lead)

WORDS = sizeof(setebench_loop) // 8
"""Of a loop's operands: 5 addresses, 4 sizes, first and count of a pass, near and far distance, sum (loops.h)."""


def version(int loop, int l1_hint, int l2_hint):
    """Where the code of a version with these hints begins, all of which there must be."""
    return <uintptr_t>setebench_versions[loop][l1_hint][l2_hint]


def ticks(uintptr_t code, uintptr_t operands, int64_t passes=1, int64_t before=0, int64_t lead=0):
    """Go `passes` times through the iterations that the operands name: ticks of all passes. Before that, and not timed,
    through `lead` iterations from `before` on. `code` is of `version`, `operands` the address of `WORDS` words."""
    cdef int64_t taken
    with nogil:
        taken = setebench_loop_ticks(<setebench_version>code, <setebench_loop *>operands, passes, before, lead)
    return taken
