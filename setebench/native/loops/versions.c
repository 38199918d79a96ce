/* Every loop in every version (without prefetches, and with each pair of hints), and the clock around them. */
#include <x86intrin.h>

#include "bodies.h"

#define VERSION(name, near, far)                                         \
    static void name##_##near##far(struct setebench_loop *loop)          \
    {                                                                    \
        name(loop, near, far);                                           \
    }
#define FAR_VERSIONS(name, near) \
    VERSION(name, near, 0) VERSION(name, near, 1) VERSION(name, near, 2) \
    VERSION(name, near, 3) VERSION(name, near, 4) VERSION(name, near, 5)
#define VERSIONS(name) \
    FAR_VERSIONS(name, 0) FAR_VERSIONS(name, 1) FAR_VERSIONS(name, 2) \
    FAR_VERSIONS(name, 3) FAR_VERSIONS(name, 4) FAR_VERSIONS(name, 5)

EVERY_LOOP(VERSIONS)

#define FAR_ROW(name, near) \
    {name##_##near##0, name##_##near##1, name##_##near##2, name##_##near##3, name##_##near##4, name##_##near##5}
#define ROW(name) \
    {FAR_ROW(name, 0), FAR_ROW(name, 1), FAR_ROW(name, 2), FAR_ROW(name, 3), FAR_ROW(name, 4), FAR_ROW(name, 5)},

const setebench_version setebench_versions[SETEBENCH_LOOPS][SETEBENCH_HINTS][SETEBENCH_HINTS] = {EVERY_LOOP(ROW)};

/* One pass takes a hundred thousand cycles and more, so that the fences don't matter. */
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
