/* Single accesses: loads, stores, software prefetches, flushes. Loads leave their value in rax, or xmm0. */
#include "snippet.inc"

    .macro body base
    mov     rax, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "load8", "load 8 bytes", "", TOUCH_LOAD, 8

    .macro body base
    movups  xmm0, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "load16", "load 16 bytes", "", TOUCH_LOAD, 16

    .macro body base
    vmovups ymm0, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "load32", "load 32 bytes", "avx", TOUCH_LOAD, 32

    .macro body base
    vmovups zmm0, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "load64", "load 64 bytes", "avx512f", TOUCH_LOAD, 64

/* Zeros are stored, so a line that was stored to still adds nothing to an address that depends on it. */
    .macro body base
    mov     qword ptr [\base + OPERAND], 0
    PATCH   FIELD_OFFSET, 4
    .endm
    ACCESS "store8", "store 8 bytes", "", TOUCH_STORE, 8

    .macro body base
    movups  [\base + OPERAND], xmm1
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "store16", "store 16 bytes", "", TOUCH_STORE, 16

    .macro body base
    vmovups [\base + OPERAND], ymm1
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "store32", "store 32 bytes", "avx", TOUCH_STORE, 32

    .macro body base
    vmovups [\base + OPERAND], zmm1
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "store64", "store 64 bytes", "avx512f", TOUCH_STORE, 64

    .macro body base
    prefetcht0 [\base + OPERAND]
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "prefetch.t0", "software prefetch, hint t0", "", TOUCH_PREFETCH

    .macro body base
    prefetcht1 [\base + OPERAND]
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "prefetch.t1", "software prefetch, hint t1", "", TOUCH_PREFETCH

    .macro body base
    prefetcht2 [\base + OPERAND]
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "prefetch.t2", "software prefetch, hint t2", "", TOUCH_PREFETCH

    .macro body base
    prefetchnta [\base + OPERAND]
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "prefetch.nta", "software prefetch, hint nta", "", TOUCH_PREFETCH

    .macro body base
    prefetchw [\base + OPERAND]
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "prefetch.w", "software prefetch for a store", "3dnowprefetch", TOUCH_PREFETCH

    .macro body base
    clflush [\base + OPERAND]
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "flush.clflush", "write a line back and drop it from every cache", "clflush", TOUCH_FLUSH

    .macro body base
    clflushopt [\base + OPERAND]
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "flush.clflushopt", "clflush without its ordering", "clflushopt", TOUCH_FLUSH

    .macro body base
    clwb    [\base + OPERAND]
    PATCH   FIELD_OFFSET
    .endm
    ACCESS "flush.clwb", "write a line back and may keep it", "clwb", TOUCH_FLUSH

    END_OF_FILE
