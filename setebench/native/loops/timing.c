/* The clock around a loop. One pass takes a hundred thousand cycles and more, so that the fences don't matter. */
#include <emmintrin.h>
#include <x86intrin.h>

#include "loops.h"

static int64_t now(void)
{
    _mm_lfence();
    const int64_t ticks = (int64_t)__rdtsc();
    _mm_lfence();
    return ticks;
}

int64_t setebench_loop_ticks(setebench_version version, struct setebench_loop *loop, int64_t passes, int64_t before,
                             int64_t lead)
{
    if (lead > 0) {
        struct setebench_loop first = *loop;
        first.first = before;
        first.count = lead;
        version(&first);
    }
    const int64_t begin = now();
    for (int64_t pass = 0; pass < passes; pass++)
        version(loop);
    return now() - begin;
}
