/* What a compiler makes of STREAM's loops, for benchmarks/bandwidth_speed.py: a shared object that runs copy or triad
 * over arrays that the caller owns, so that both sides of the comparison use the very same pages.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

enum { MOST_THREADS = 1024, MOST_RUNS = 64 };
enum { COPY, TRIAD };

struct job {
    int kernel, cpu, runs, threads;
    double *a, *b, *c;
    size_t elements;
    double began[MOST_RUNS], ended[MOST_RUNS];
};

static atomic_int arrived;
static struct job jobs[MOST_THREADS];

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

/* Spinning: threads that sleep at a barrier leave it microseconds apart. */
static void meet(int threads, int round)
{
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < threads * (round + 1))
        __builtin_ia32_pause();
}

static void *work(void *argument)
{
    struct job *job = argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(job->cpu, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set))
        return argument;
    for (int run = 0; run < job->runs; run++) {
        meet(job->threads, run);
        job->began[run] = now();
        if (job->kernel == COPY)
            copy(job->a, job->b, job->elements);
        else
            triad(job->a, job->b, job->c, 3.0, job->elements);
        job->ended[run] = now();
    }
    return NULL;
}

/* Runs a kernel on each of `threads` CPUs over arrays of `elements` numbers that begin at `first[i]`, `spacing` numbers
 * apart; seconds of every run, from the first start to the last end. Returns 0, or 1 where a thread could not run. */
int run_compiled(int kernel, int threads, const int *cpus, double *const *first, size_t spacing, size_t elements,
                 int runs, double *seconds)
{
    pthread_t handles[MOST_THREADS];
    int failed = 0;
    if (threads < 1 || threads > MOST_THREADS || runs < 1 || runs > MOST_RUNS)
        return 1;
    atomic_store(&arrived, 0);
    for (int i = 0; i < threads; i++) {
        jobs[i] = (struct job){ .kernel = kernel, .cpu = cpus[i], .runs = runs, .threads = threads,
                                .a = first[i], .b = first[i] + spacing, .c = first[i] + 2 * spacing,
                                .elements = elements };
        if (pthread_create(&handles[i], NULL, work, &jobs[i]))
            return 1;
    }
    for (int i = 0; i < threads; i++) {
        void *failure;
        pthread_join(handles[i], &failure);
        failed |= failure != NULL;
    }
    for (int run = 0; run < runs; run++) {
        double begin = jobs[0].began[run], end = jobs[0].ended[run];
        for (int i = 1; i < threads; i++) {
            begin = jobs[i].began[run] < begin ? jobs[i].began[run] : begin;
            end = jobs[i].ended[run] > end ? jobs[i].ended[run] : end;
        }
        seconds[run] = end - begin;
    }
    return failed;
}
