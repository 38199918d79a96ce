/* What the engine stitches, written by hand: the yardstick of engine_speed.py.
 *
 * Compiled with -DBRACKET=n, the number of the clock bracket in setebench.probe.BRACKETS that the machine chose. Both
 * functions store the elapsed ticks of every repetition in `results`.
 */
#include <stdint.h>

#define LFENCE 0
#define RDTSCP 1
#define MFENCE 2
#define CPUID 3

static inline uint64_t clock_start(void)
{
    uint32_t low, high;
#if BRACKET == LFENCE
    __asm__ volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high)::"memory");
#elif BRACKET == RDTSCP
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high)::"rcx", "memory");
#elif BRACKET == MFENCE
    __asm__ volatile("mfence\n\tlfence\n\trdtsc" : "=a"(low), "=d"(high)::"memory");
#elif BRACKET == CPUID
    __asm__ volatile("xor %%eax, %%eax\n\tcpuid\n\trdtsc" : "=a"(low), "=d"(high)::"rbx", "rcx", "memory");
#else
#error "no such bracket here"
#endif
    uint64_t now = (uint64_t)high << 32 | low;
#if BRACKET != CPUID
    __asm__ volatile("lfence" : "+r"(now)::"memory");
#endif
    return now;
}

static inline uint64_t clock_stop(void)
{
    uint32_t low, high;
#if BRACKET == LFENCE
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high)::"memory");
#elif BRACKET == RDTSCP
    __asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high)::"rcx", "memory");
#elif BRACKET == MFENCE
    __asm__ volatile("mfence\n\tlfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high)::"memory");
#else
    uint64_t filler = 1;
    __asm__ volatile(".rept 16\n\timul %0, %0\n\t.endr" : "+r"(filler)::"memory");
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high) : "r"(filler) : "rcx", "memory");
#endif
    uint64_t now = (uint64_t)high << 32 | low;
#if BRACKET == CPUID
    uint32_t leaf = 0;
    __asm__ volatile("cpuid" : "+a"(leaf)::"rbx", "rcx", "rdx", "memory");
#endif
    return now;
}

static inline void wait_rounds(int32_t rounds)
{
    __asm__ volatile("1: dec %0\n\tjns 1b" : "+r"(rounds)::"cc");
}

void flush_and_load(const int64_t *rows, int64_t *results, int64_t repetitions, const int32_t *dither)
{
    for (int64_t i = 0; i < repetitions; i++) {
        const char *line = (const char *)rows[i];
        uint64_t value;
        __asm__ volatile("clflush (%0)\n\tmfence\n\tlfence" ::"r"(line) : "memory");
        wait_rounds(dither[i]);
        uint64_t start = clock_start();
        __asm__ volatile("mov (%1), %0" : "=r"(value) : "r"(line) : "memory");
        results[i] = (int64_t)(clock_stop() - start);
    }
}

void empty(const int64_t *rows, int64_t *results, int64_t repetitions, const int32_t *dither)
{
    (void)rows;
    for (int64_t i = 0; i < repetitions; i++) {
        wait_rounds(dither[i]);
        uint64_t start = clock_start();
        results[i] = (int64_t)(clock_stop() - start);
    }
}
