/* What bodies.h is written in: stages of prefetching, vectors, and the lines that loops go through. */
#ifndef SETEBENCH_STAGES_H
#define SETEBENCH_STAGES_H

#include <emmintrin.h>
#include <stdint.h>

#include "loops.h"

/* Prefetches by the number of their hint; 0 is no stage, and its address isn't even computed. */
#define HINT_0(address) ((void)0)
#define HINT_1(address) __builtin_prefetch((address), 0, 3)
#define HINT_2(address) __builtin_prefetch((address), 0, 2)
#define HINT_3(address) __builtin_prefetch((address), 0, 1)
#define HINT_4(address) __builtin_prefetch((address), 0, 0)
#define HINT_5(address) __builtin_prefetch((address), 1, 3)

#define PASTE_(a, b, c, d) a##b##c##d
#define PASTE(a, b, c, d) PASTE_(a, b, c, d)
#define VERSION(name) PASTE(name, _, NEAR, FAR)
#define FETCH_NEAR(address) PASTE(HINT, _, NEAR, )(address)
#define FETCH_FAR(address) PASTE(HINT, _, FAR, )(address)
#define FETCH(address, step)                     \
    do {                                         \
        FETCH_FAR((address) + far * (step));     \
        FETCH_NEAR((address) + near * (step));   \
    } while (0)

/* A stage that isn't there has a distance that the compiler knows, so that what depends on it vanishes. */
#define STAGES(loop)                              \
    const int64_t near = NEAR ? (loop)->near : 0; \
    const int64_t far = FAR ? (loop)->far : 0;    \
    (void)near;                                   \
    (void)far

/* Where a run over `rows` that has come to k must stop, for a stage that is `ahead` to begin anew at the first row. */
#define BEFORE(rows, k, ahead) ((k) < (rows) - (ahead) ? (rows) - (ahead) : (rows))
#define NEARER(one, other) ((one) < (other) ? (one) : (other))

typedef double pair __attribute__((vector_size(16)));
typedef double loose_pair __attribute__((vector_size(16), aligned(8)));

static inline pair load_pair(const double *from)
{
    return *(const loose_pair *)from;
}

static inline void store_pair(double *to, pair value)
{
    *(loose_pair *)to = value;
}

struct record {
    uint64_t state;
    uint64_t unused[31];
};

struct bucket {
    uint64_t key[4]; /* 0 for none; filled from the front */
    uint64_t payload[4];
};

struct item {
    const struct item *next;
    uint64_t value;
    uint64_t unused[6];
};

enum { SETEBENCH_KEYS = SETEBENCH_FAN_OUT - 1, SETEBENCH_LEVELS = 7 };

struct node {
    int32_t key[SETEBENCH_KEYS];
};

/* Multiplicative hashing: the upper bits of a product with 2^64 over the golden ratio (Knuth, volume 3, 6.4). */
static inline uint64_t bucket_of(uint64_t key, int64_t shift)
{
    return key * 0x9E3779B97F4A7C15u >> shift;
}

static inline uint64_t payload_of(const struct bucket *bucket, uint64_t key)
{
    for (;; bucket++) {
        for (int i = 0; i < 4; i++)
            if (bucket->key[i] == key)
                return bucket->payload[i];
        if (!bucket->key[3])
            return 0;
    }
}

/* How many of a node's keys are smaller: they are sorted, so the comparison's bits are that many ones. */
static inline int32_t smaller(const struct node *node, int32_t wanted)
{
    const __m128i *keys = (const __m128i *)node->key;
    const __m128i all = _mm_set1_epi32(wanted);
    const __m128i lower = _mm_packs_epi32(_mm_cmpgt_epi32(all, keys[0]), _mm_cmpgt_epi32(all, keys[1]));
    const __m128i upper = _mm_packs_epi32(_mm_cmpgt_epi32(all, keys[2]), _mm_cmpgt_epi32(all, keys[3]));
    return __builtin_ctz(~(unsigned)_mm_movemask_epi8(_mm_packs_epi16(lower, upper)));
}

#endif
