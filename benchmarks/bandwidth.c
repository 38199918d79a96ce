/* What a compiler makes of the classical loops, for benchmarks/bandwidth_speed.py: copy and triad over three arrays,
 * one thread on every CPU named, best of the runs, every thread started by one barrier.
 *
 * Usage: bandwidth ELEMENTS RUNS CPU [CPU ...]; prints "copy GB/s" and "triad GB/s".
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { MOST_THREADS = 1024, KERNELS = 2 };

static double *a, *b, *c;
static size_t elements;
static int runs, threads;
static pthread_barrier_t start;
static int cpus[MOST_THREADS];
static double began[KERNELS][MOST_THREADS][64], ended[KERNELS][MOST_THREADS][64];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

__attribute__((noinline)) static void copy(double *restrict to, const double *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
}

__attribute__((noinline)) static void triad(double *restrict to, const double *restrict x, const double *restrict y,
                                            double s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = x[i] + s * y[i];
}

static void *work(void *argument)
{
    int me = (int)(intptr_t)argument;
    size_t each = elements / (size_t)threads, first = each * (size_t)me;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus[me], &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    for (size_t i = first; i < first + each; i++) {
        a[i] = 1.0;
        b[i] = 2.0;
        c[i] = 0.5;
    }
    for (int run = 0; run < runs; run++) {
        for (int kernel = 0; kernel < KERNELS; kernel++) {
            pthread_barrier_wait(&start);
            began[kernel][me][run] = now();
            if (kernel == 0)
                copy(a + first, b + first, each);
            else
                triad(a + first, b + first, c + first, 3.0, each);
            ended[kernel][me][run] = now();
        }
    }
    return NULL;
}

static double *array(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        exit(1);
    madvise(memory, bytes, MADV_HUGEPAGE); /* as setebench asks for, so that TLBs make no difference */
    return memory;
}

int main(int count, char **arguments)
{
    static const char *names[KERNELS] = { "copy", "triad" };
    static const double arrays[KERNELS] = { 2.0, 3.0 };
    pthread_t handles[MOST_THREADS];
    if (count < 4 || count - 3 > MOST_THREADS || atoi(arguments[2]) > 64)
        return 2;
    elements = strtoull(arguments[1], NULL, 10);
    runs = atoi(arguments[2]);
    threads = count - 3;
    a = array(elements * 8 + 2048); /* not all three at one place of a page */
    b = array(elements * 8 + 2048) + 136;
    c = array(elements * 8 + 4096) + 272;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        cpus[i] = atoi(arguments[3 + i]);
        pthread_create(&handles[i], NULL, work, (void *)(intptr_t)i);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(handles[i], NULL);
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        double best = 1e30;
        for (int run = 1; run < runs; run++) {
            double first = 1e30, last = 0;
            for (int i = 0; i < threads; i++) {
                first = began[kernel][i][run] < first ? began[kernel][i][run] : first;
                last = ended[kernel][i][run] > last ? ended[kernel][i][run] : last;
            }
            best = last - first < best ? last - first : best;
        }
        printf("%s %.6f\n", names[kernel], arrays[kernel] * 8.0 * (double)(elements / threads * threads) / best / 1e9);
    }
    return a[elements / 2] == 3.5 ? 0 : 1;
}
