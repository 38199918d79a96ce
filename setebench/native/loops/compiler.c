/* The same loops without stages of ours, with the prefetches that the compiler puts in by itself: what a user gets for
 * an option and no thought. Only gcc has that option; elsewhere the table is empty. */
#include "loops.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("prefetch-loop-arrays")
#include "bodies.h"

#define VERSION(name)                                    \
    static void name##_plain(struct setebench_loop *loop) \
    {                                                    \
        name(loop, 0, 0);                                \
    }
#define ROW(name) name##_plain,

EVERY_LOOP(VERSION)

const setebench_version setebench_compilers[SETEBENCH_LOOPS] = {EVERY_LOOP(ROW)};
#else
const setebench_version setebench_compilers[SETEBENCH_LOOPS] = {0};
#endif
