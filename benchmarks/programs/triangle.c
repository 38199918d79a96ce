/* An upper triangular matrix times a vector by two threads, the upper half of the rows to the first one (Röhl et al. 2015,
 * Table 1.2). Usage: triangle [SIZE [PASSES]]
 *
 * Of 8192 rows the first thread handles 25,167,872 elements and the second 8,390,656, so 3 : 1 of useful work, and the
 * most loaded thread does 1.5 times the mean. Threads wait for each other after every pass. Function `rows_of`. Prints
 * the elements of each thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2 };

static size_t size = 8192;
static int passes = 20;
static double *matrix, *vector, *product;
static pthread_barrier_t barrier;
static size_t elements[THREADS];

__attribute__((noinline)) static size_t rows_of(size_t first, size_t last)
{
    size_t done = 0;
    for (size_t row = first; row < last; row++) {
        double sum = 0.0;
        const double *line = matrix + row * size;
        for (size_t column = row; column < size; column++)
            sum += line[column] * vector[column];
        product[row] = sum;
        done += size - row;
    }
    return done;
}

static void *work(void *argument)
{
    size_t number = (size_t)argument, half = size / THREADS;
    for (int pass = 0; pass < passes; pass++) {
        elements[number] += rows_of(number * half, (number + 1) * half);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    size = argc > 1 ? (size_t)atol(argv[1]) : size;
    passes = argc > 2 ? atoi(argv[2]) : passes;
    matrix = malloc(size * size * sizeof *matrix);
    vector = malloc(size * sizeof *vector);
    product = malloc(size * sizeof *product);
    if (size < THREADS || passes < 1 || !matrix || !vector || !product) {
        fprintf(stderr, "usage: triangle [SIZE [PASSES]]\n");
        return 2;
    }
    for (size_t i = 0; i < size * size; i++)
        matrix[i] = 1.0;
    for (size_t i = 0; i < size; i++)
        vector[i] = 1.0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    if (pthread_create(&thread, NULL, work, (void *)1))
        return 1;
    work((void *)0);
    pthread_join(thread, NULL);
    printf("%zu elements by the first thread, %zu by the second, in %d passes; check %g\n", elements[0], elements[1],
           passes, product[0]);
    return 0;
}
