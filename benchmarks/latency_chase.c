/* A pointer chase written by hand, for latency_chase.py. It shares nothing with the package.

   Built as a shared library with gcc -O2; the loops are asm, so the compiler can neither drop nor reorder a load. */
#include <stddef.h>
#include <stdint.h>
#include <x86intrin.h>

/* Each line points to the next one of `order` (offsets in bytes), the last to the first. */
void link_lines(char *memory, const int64_t *order, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        *(void **)(memory + order[i]) = memory + order[(i + 1) % count];
}

static inline void *follow(void *line, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++)
        __asm__ volatile("mov (%0), %0" : "+r"(line)::"memory");
    return line;
}

static inline uint64_t now(void)
{
    _mm_lfence();
    uint64_t ticks = __rdtsc();
    _mm_lfence();
    return ticks;
}

/* Ticks of one addition, which takes one core cycle. */
double ticks_per_cycle(void)
{
    uint64_t number = 1, begin = now();
    for (int i = 0; i < 2000; i++)
        __asm__ volatile(".rept 10\n add $1, %0\n .endr" : "+r"(number));
    return (double)(now() - begin) / 20000.0;
}

/* `steps` without looking at the clock; the line that comes next. */
void *warm(void *line, int64_t steps)
{
    return follow(line, steps);
}

/* `count` pairs of short chases, of `steps` and of half as many steps; ticks of each go to `whole` and `half`. */
void *pairs(void *line, int64_t count, int64_t steps, int64_t *whole, int64_t *half)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t begin = now();
        line = follow(line, steps);
        whole[i] = (int64_t)(now() - begin);
        begin = now();
        line = follow(line, steps / 2);
        half[i] = (int64_t)(now() - begin);
    }
    return line;
}
