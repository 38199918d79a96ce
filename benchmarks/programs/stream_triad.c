/* STREAM's triad: what it moves is known. Usage: stream_triad [PASSES [MEGABYTES_PER_ARRAY]]
 *
 * a[i] = b[i] + s * c[i] over three arrays: each pass reads three arrays from memory (a is fetched to be overwritten) and
 * writes one back. Answer that a diagnosis must give: bound by memory bandwidth; (4/3) write-allocate factor; function
 * `triad`. Prints bytes and the bandwidth that the program moved. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

__attribute__((noinline)) static void triad(double *a, const double *b, const double *c, double s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + s * c[i];
}

int main(int argc, char **argv)
{
    int passes = argc > 1 ? atoi(argv[1]) : 20;
    size_t n = (argc > 2 ? (size_t)atol(argv[2]) : 64) * 1000000 / sizeof(double);
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
    if (passes < 1 || !n || !a || !b || !c) {
        fprintf(stderr, "usage: stream_triad [PASSES [MEGABYTES_PER_ARRAY]]\n");
        return 2;
    }
    for (size_t i = 0; i < n; i++) {
        a[i] = 1.0;
        b[i] = 2.0;
        c[i] = 0.5;
    }
    double begin = now(CLOCK_MONOTONIC), begin_busy = now(CLOCK_PROCESS_CPUTIME_ID);
    for (int pass = 0; pass < passes; pass++)
        triad(a, b, c, 3.0, n);
    double seconds = now(CLOCK_MONOTONIC) - begin, busy = now(CLOCK_PROCESS_CPUTIME_ID) - begin_busy, bytes = 3.0 * sizeof(double) * n * passes;
    printf("%.0f bytes moved in %.4f s, %.4f s on a CPU: %.2f GB/s; check %g\n", bytes, seconds, busy, bytes / seconds / 1e9,
           a[n / 2]);
    return 0;
}
