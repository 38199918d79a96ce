/* Loops with a prefetch policy: what one is called with, and the tables of their versions. */
#ifndef SETEBENCH_LOOPS_H
#define SETEBENCH_LOOPS_H

#include <stdint.h>

enum { SETEBENCH_LOOPS = 8, SETEBENCH_HINTS = 6 };

/* One pass: `count` iterations from `first` on. What arrays and sizes stand for, each loop says (bodies.h). Distances
 * are in iterations; a version without a stage doesn't read its distance. All words are of 8 bytes (_loops.pyx). */
struct setebench_loop {
    void *array[5];
    int64_t size[4];
    int64_t first;
    int64_t count;
    int64_t near; /* distance of the L1 stage */
    int64_t far; /* distance of the L2 stage */
    int64_t result; /* of loops whose result is a sum of integers */
};

typedef void (*setebench_version)(struct setebench_loop *loop);

/* [loop][hint of the L1 stage][hint of the L2 stage]; loops in the order of setebench.loops.LOOP_NAMES, hints: none,
 * then setebench.loops.HINTS. */
extern const setebench_version setebench_versions[SETEBENCH_LOOPS][SETEBENCH_HINTS][SETEBENCH_HINTS];

/* Run a version `passes` times; ticks of all of them together. Before, and not timed, it goes through `lead` iterations
 * from `before` on, so that what comes first was prefetched like all the rest. */
int64_t setebench_loop_ticks(setebench_version version, struct setebench_loop *loop, int64_t passes, int64_t before,
                             int64_t lead);

#endif
