/* Single accesses: loads, stores, software prefetches, flushes. Loads leave their value in rax, or xmm0. */
#include "snippet.inc"

    ONE     "load8", "load 8 bytes", "", "mov rax,"
    ONE     "load16", "load 16 bytes", "", "movups xmm0,"
    ONE     "load32", "load 32 bytes", "avx", "vmovups ymm0,"
    ONE     "load64", "load 64 bytes", "avx512f", "vmovups zmm0,"

/* Zeros are stored, so a line that was stored to still adds nothing to an address that depends on it. */
    ONE     "store8", "store 8 bytes", "", "mov qword ptr", ", 0", 4
    ONE     "store16", "store 16 bytes", "", "movups", ", xmm1"
    ONE     "store32", "store 32 bytes", "avx", "vmovups", ", ymm1"
    ONE     "store64", "store 64 bytes", "avx512f", "vmovups", ", zmm1"

    ONE     "prefetch.t0", "software prefetch, hint t0", "", prefetcht0
    ONE     "prefetch.t1", "software prefetch, hint t1", "", prefetcht1
    ONE     "prefetch.t2", "software prefetch, hint t2", "", prefetcht2
    ONE     "prefetch.nta", "software prefetch, hint nta", "", prefetchnta
    ONE     "prefetch.w", "software prefetch for a store", "3dnowprefetch", prefetchw

    ONE     "flush.clflush", "write a line back and drop it from every cache", "clflush", clflush
    ONE     "flush.clflushopt", "clflush without its ordering", "clflushopt", clflushopt
    ONE     "flush.clwb", "write a line back and may keep it", "clwb", clwb

    END_OF_FILE
