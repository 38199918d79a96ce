/* One pointer chase in random order: each load's address is what the load before brought. Usage: pointer_chase [STEPS
 * [MEGABYTES]]
 *
 * Answer that a diagnosis must give: bound by memory latency, one miss in flight, next to no bandwidth; function `chase`.
 * Prints the nanoseconds of a step. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LINE = 64 };

struct line {
    struct line *next;
    char rest[LINE - sizeof(struct line *)];
};

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

/* Sattolo's algorithm: one cycle through all lines. */
__attribute__((noinline)) static void link_lines(struct line *lines, size_t n)
{
    size_t *order = malloc(n * sizeof *order);
    unsigned long long state = 88172645463325252ULL;
    if (!order)
        exit(1);
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n - 1; i > 0; i--) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        size_t j = state % i, kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (size_t i = 0; i < n; i++)
        lines[order[i]].next = &lines[order[(i + 1) % n]];
    free(order);
}

__attribute__((noinline)) static struct line *chase(struct line *at, long steps)
{
    for (long i = 0; i < steps; i++)
        at = at->next;
    return at;
}

int main(int argc, char **argv)
{
    long steps = argc > 1 ? atol(argv[1]) : 10000000;
    size_t n = (argc > 2 ? (size_t)atol(argv[2]) : 128) * 1000000 / LINE;
    struct line *lines = aligned_alloc(LINE, n * LINE);
    if (steps < 1 || n < 2 || !lines) {
        fprintf(stderr, "usage: pointer_chase [STEPS [MEGABYTES]]\n");
        return 2;
    }
    link_lines(lines, n);
    double begin = now(CLOCK_MONOTONIC), begin_busy = now(CLOCK_PROCESS_CPUTIME_ID);
    struct line *last = chase(lines, steps);
    double seconds = now(CLOCK_MONOTONIC) - begin, busy = now(CLOCK_PROCESS_CPUTIME_ID) - begin_busy;
    printf("%ld steps in %.4f s, %.4f s on a CPU: %.2f ns each; ended at line %ld\n", steps, seconds, busy,
           1e9 * seconds / steps, (long)(last - lines));
    return 0;
}
