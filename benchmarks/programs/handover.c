/* A producer writes lines that a consumer then reads, step by step (Röhl et al. 2015, Table 1.3). Usage: handover [LINES
 * [STEPS]]
 *
 * LINES (2 to 1024) are handed over in each of STEPS steps, always in memory that was not used before, so LINES * STEPS
 * lines go from one core to the other, besides those of the flag that both wait at. Functions `produce` and `consume`.
 * Prints the lines handed over. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE = 64, PAUSE_NS = 20000 };

static size_t lines = 64;
static long steps = 2000;
static char *memory;
static _Alignas(LINE) atomic_long produced, consumed;

/* Seldom enough that the flag's own traffic stays small beside that of the lines. */
static void wait_for(atomic_long *counter, long wanted)
{
    struct timespec pause = {0, PAUSE_NS};
    while (atomic_load_explicit(counter, memory_order_acquire) < wanted)
        nanosleep(&pause, NULL);
}

__attribute__((noinline)) static void produce(char *begin, long step)
{
    for (size_t line = 0; line < lines; line++)
        *(volatile long *)(begin + line * LINE) = step + (long)line;
}

__attribute__((noinline)) static long consume(const char *begin)
{
    long sum = 0;
    for (size_t line = 0; line < lines; line++)
        sum += *(volatile const long *)(begin + line * LINE);
    return sum;
}

static void *consumer(void *sum)
{
    for (long step = 0; step < steps; step++) {
        wait_for(&produced, step + 1);
        *(long *)sum += consume(memory + (size_t)step * lines * LINE);
        atomic_store_explicit(&consumed, step + 1, memory_order_release);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    long sum = 0;
    lines = argc > 1 ? (size_t)atol(argv[1]) : lines;
    steps = argc > 2 ? atol(argv[2]) : steps;
    if (lines < 2 || lines > 1024 || steps < 1 || !(memory = aligned_alloc(LINE, lines * steps * LINE))) {
        fprintf(stderr, "usage: handover [LINES [STEPS]], LINES from 2 to 1024\n");
        return 2;
    }
    memset(memory, 0, lines * steps * LINE);
    if (pthread_create(&thread, NULL, consumer, &sum))
        return 1;
    for (long step = 0; step < steps; step++) {
        produce(memory + (size_t)step * lines * LINE, step);
        atomic_store_explicit(&produced, step + 1, memory_order_release);
        wait_for(&consumed, step + 1);
    }
    pthread_join(thread, NULL);
    printf("%zu lines handed over in %ld steps; check %ld\n", lines * steps, steps, sum);
    return 0;
}
