/* Single accesses: loads, stores, software prefetches, flushes. Loads leave their value in rax, or xmm0. */
#include "snippet.inc"

    ONE     "load8", "load 8 bytes", "", TOUCH_LOAD, 8, "mov rax,"
    ONE     "load16", "load 16 bytes", "", TOUCH_LOAD, 16, "movups xmm0,"
    ONE     "load32", "load 32 bytes", "avx", TOUCH_LOAD, 32, "vmovups ymm0,"
    ONE     "load64", "load 64 bytes", "avx512f", TOUCH_LOAD, 64, "vmovups zmm0,"

/* Zeros are stored, so a line that was stored to still adds nothing to an address that depends on it. */
    ONE     "store8", "store 8 bytes", "", TOUCH_STORE, 8, "mov qword ptr", ", 0", 4
    ONE     "store16", "store 16 bytes", "", TOUCH_STORE, 16, "movups", ", xmm1"
    ONE     "store32", "store 32 bytes", "avx", TOUCH_STORE, 32, "vmovups", ", ymm1"
    ONE     "store64", "store 64 bytes", "avx512f", TOUCH_STORE, 64, "vmovups", ", zmm1"

    ONE     "prefetch.t0", "software prefetch, hint t0", "", TOUCH_PREFETCH, 0, prefetcht0
    ONE     "prefetch.t1", "software prefetch, hint t1", "", TOUCH_PREFETCH, 0, prefetcht1
    ONE     "prefetch.t2", "software prefetch, hint t2", "", TOUCH_PREFETCH, 0, prefetcht2
    ONE     "prefetch.nta", "software prefetch, hint nta", "", TOUCH_PREFETCH, 0, prefetchnta
    ONE     "prefetch.w", "software prefetch for a store", "3dnowprefetch", TOUCH_PREFETCH, 0, prefetchw

    ONE     "flush.clflush", "write a line back and drop it from every cache", "clflush", TOUCH_FLUSH, 0, clflush
    ONE     "flush.clflushopt", "clflush without its ordering", "clflushopt", TOUCH_FLUSH, 0, clflushopt
    ONE     "flush.clwb", "write a line back and may keep it", "clwb", TOUCH_FLUSH, 0, clwb

    END_OF_FILE
