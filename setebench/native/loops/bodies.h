/* The loops, written once. BODY(name) begins one with a prefetch hint for each stage, which every version fixes:
 * near_hint of the L1 stage and far_hint of the L2 stage, 0 for a stage that isn't there, and near and far are their
 * distances. FETCH(address, step) issues what the stages have for an address that moves by `step` elements an iteration;
 * fetch() issues one prefetch of an address that is complete. Without stages none of them leaves an instruction behind.
 *
 * Vectors of 16 bytes are written out, so that every version computes alike and only its prefetches differ. Index arrays
 * and keys are read `far` or `near` entries ahead: they are longer than the loop by the largest distance.
 */
#include <emmintrin.h>

#include "loops.h"

#define EVERY_LOOP(each) \
    each(matmul) each(spmv) each(triad) each(stencil) each(strided) each(hash_join) each(tree_search) each(list)

#define INLINED static inline __attribute__((always_inline))
#define BODY(name) INLINED void name(struct setebench_loop *loop, const int near_hint, const int far_hint)

/* A stage that isn't there has a distance that the compiler knows, so that what depends on it vanishes. */
#define STAGES(loop)                                   \
    const int64_t near = near_hint ? (loop)->near : 0; \
    const int64_t far = far_hint ? (loop)->far : 0;    \
    (void)near;                                        \
    (void)far

#define FETCH(address, step)                           \
    do {                                               \
        fetch(far_hint, (address) + far * (step));     \
        fetch(near_hint, (address) + near * (step));   \
    } while (0)

/* Hints by number, in the order of setebench.loops.HINTS. */
INLINED void fetch(const int hint, const void *address)
{
    switch (hint) {
    case 1: __builtin_prefetch(address, 0, 3); break;
    case 2: __builtin_prefetch(address, 0, 2); break;
    case 3: __builtin_prefetch(address, 0, 1); break;
    case 4: __builtin_prefetch(address, 0, 0); break;
    case 5: __builtin_prefetch(address, 1, 3); break;
    }
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

enum { FAN_OUT = 17, MOST_LEVELS = 10 };

struct node {
    int32_t key[FAN_OUT - 1];
};

/* Multiplicative hashing: the upper bits of a product with 2^64 over the golden ratio (Knuth, volume 3, 6.4). */
INLINED uint64_t bucket_of(uint64_t key, int64_t shift)
{
    return key * 0x9E3779B97F4A7C15u >> shift;
}

INLINED uint64_t payload_of(const struct bucket *bucket, uint64_t key)
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
INLINED int32_t smaller(const struct node *node, int32_t wanted)
{
    const __m128i *keys = (const __m128i *)node->key;
    const __m128i all = _mm_set1_epi32(wanted);
    const __m128i lower = _mm_packs_epi32(_mm_cmpgt_epi32(all, keys[0]), _mm_cmpgt_epi32(all, keys[1]));
    const __m128i upper = _mm_packs_epi32(_mm_cmpgt_epi32(all, keys[2]), _mm_cmpgt_epi32(all, keys[3]));
    return __builtin_ctz(~(unsigned)_mm_movemask_epi8(_mm_packs_epi16(lower, upper)));
}

/* What lies so many rows behind a panel's first: a stage that has reached the last row goes on with the next panel. */
INLINED const double *row_ahead(const double *panel, int64_t ahead, int64_t rows, int64_t row)
{
    for (; ahead >= rows; ahead -= rows)
        panel += 8;
    return panel + ahead * row;
}

/* Matrix product, two rows of the left matrix, one line of each row of the right one: C[2][n] = A[2][k] B[k][n].
 * An iteration is one row of B, in one panel of eight columns. Its lines lie a row apart, mostly beyond a page, so that
 * hardware prefetchers rarely follow (Fang et al. 2014, 7: "matmul").
 * array: C, A, B; size: rows of B (k), elements from one row of B to the next. first and count are whole panels. */
BODY(matmul)
{
    STAGES(loop);
    double *restrict product = loop->array[0];
    const double *restrict left = loop->array[1], *restrict right = loop->array[2];
    const int64_t rows = loop->size[0], row = loop->size[1];
    const int64_t end = (loop->first + loop->count) / rows;

    for (int64_t panel = loop->first / rows; panel < end; panel++) {
        const double *line = right + 8 * panel;
        __m128d sums[2][4] = {{{0}}};
        for (int64_t k = 0; k < rows; k++) {
            fetch(far_hint, row_ahead(right + 8 * panel, k + far, rows, row));
            fetch(near_hint, row_ahead(right + 8 * panel, k + near, rows, row));
            const __m128d one = {left[k], left[k]}, other = {left[rows + k], left[rows + k]};
            for (int j = 0; j < 4; j++) {
                const __m128d two = _mm_loadu_pd(line + 2 * j);
                sums[0][j] += one * two;
                sums[1][j] += other * two;
            }
            line += row;
        }
        for (int j = 0; j < 4; j++) {
            _mm_storeu_pd(product + 8 * panel + 2 * j, sums[0][j]);
            _mm_storeu_pd(product + row + 8 * panel + 2 * j, sums[1][j]);
        }
    }
}

/* Sparse matrix times vector, compressed rows: y = A x. An iteration is a non-zero.
 * array: y, values, columns, starts of rows, x; size: rows of a block, non-zeros of a block. first is a block's begin. */
BODY(spmv)
{
    STAGES(loop);
    double *restrict y = loop->array[0];
    const double *restrict values = loop->array[1], *restrict x = loop->array[4];
    const int32_t *restrict columns = loop->array[2], *restrict starts = loop->array[3];

    for (int64_t row = loop->first / loop->size[1] * loop->size[0], j = loop->first, end = j + loop->count; j < end; row++) {
        double sum = 0;
        for (const int64_t stop = starts[row + 1]; j < stop; j++) {
            fetch(far_hint, x + columns[j + far]);
            fetch(near_hint, x + columns[j + near]);
            sum += values[j] * x[columns[j]];
        }
        y[row] = sum;
    }
}

/* STREAM triad: a = b + 3 c. An iteration is a line of each.
 * array: a, b, c. */
BODY(triad)
{
    STAGES(loop);
    double *restrict a = loop->array[0];
    const double *restrict b = loop->array[1], *restrict c = loop->array[2];
    const int64_t end = 8 * (loop->first + loop->count);
    const __m128d three = {3, 3};

    for (int64_t i = 8 * loop->first; i < end; i += 8) {
        FETCH(b + i, 8);
        FETCH(c + i, 8);
        FETCH(a + i, 8);
        for (int j = 0; j < 8; j += 2)
            _mm_storeu_pd(a + i + j, _mm_loadu_pd(b + i + j) + three * _mm_loadu_pd(c + i + j));
    }
}

/* Stencil over a grid of three dimensions with several numbers a point, each in an array of its own: rows before, behind,
 * above and below are streams of their own, 5 a field (Fang et al. 2014, 7: "cactus" has about 80).
 * An iteration is a line of eight points. Rows and planes are one long line of points: what a row's first point has for a
 * neighbour is the last of the row before.
 * array: result, fields; size: elements of a row, of a plane, from one field to the next, number of fields. */
BODY(stencil)
{
    STAGES(loop);
    double *restrict result = loop->array[0];
    const double *restrict fields = loop->array[1];
    const int64_t row = loop->size[0], plane = loop->size[1], spacing = loop->size[2], count = loop->size[3];
    const int64_t end = 8 * (loop->first + loop->count);
    const __m128d at_centre = {0.5, 0.5}, beside = {0.25, 0.25}, across = {0.125, 0.125}, over = {0.0625, 0.0625};

    for (int64_t i = 8 * loop->first; i < end; i += 8) {
        __m128d sums[4] = {{0}};
        const double *field = fields + plane + i;
        for (int64_t f = 0; f < count; f++, field += spacing) {
            FETCH(field, 8);
            FETCH(field - row, 8);
            FETCH(field + row, 8);
            FETCH(field - plane, 8);
            FETCH(field + plane, 8);
            for (int j = 0; j < 4; j++) {
                const double *point = field + 2 * j;
                sums[j] += at_centre * _mm_loadu_pd(point)
                    + beside * (_mm_loadu_pd(point - 1) + _mm_loadu_pd(point + 1))
                    + across * (_mm_loadu_pd(point - row) + _mm_loadu_pd(point + row))
                    + over * (_mm_loadu_pd(point - plane) + _mm_loadu_pd(point + plane));
            }
        }
        for (int j = 0; j < 4; j++)
            _mm_storeu_pd(result + i + 2 * j, sums[j]);
        FETCH(result + i, 8);
    }
}

/* A controlled not on quantum states, as libquantum's gates do it, in records of four lines: of each 8 bytes are changed.
 * An iteration is a record.
 * array: records; size: the controlling bit, the target bit. */
BODY(strided)
{
    STAGES(loop);
    struct record *restrict records = loop->array[0];
    const int64_t control = loop->size[0], target = loop->size[1], end = loop->first + loop->count;

    for (int64_t i = loop->first; i < end; i++) {
        FETCH(records + i, 1);
        records[i].state ^= (records[i].state >> control & 1) << target;
    }
}

/* Probes of a hash join: the sum of what a table of buckets of one line holds for each key. Full buckets overflow into
 * the next. An iteration is a probe.
 * array: keys, buckets; size: bits to shift a hash by. */
BODY(hash_join)
{
    STAGES(loop);
    const uint64_t *restrict keys = loop->array[0];
    const struct bucket *restrict table = loop->array[1];
    const int64_t shift = loop->size[0], end = loop->first + loop->count;
    uint64_t sum = 0;

    for (int64_t i = loop->first; i < end; i++) {
        fetch(far_hint, table + bucket_of(keys[i + far], shift));
        fetch(near_hint, table + bucket_of(keys[i + near], shift));
        sum += payload_of(table + bucket_of(keys[i], shift), keys[i]);
    }
    loop->result = (int64_t)sum;
}

/* Searches in a tree whose nodes are lines of 16 sorted keys, with 17 children each: how many keys are smaller.
 * An iteration is a search. Without prefetches it goes down the tree in one piece. With them searches are in a pipeline:
 * a node found in one iteration is searched `lag` iterations later, so that step k of one search is done beside step 0
 * of the search k * lag further (Chen et al. 2007). Searches come in blocks of `lag`; block t enters at time t.
 * array: keys to search, tree, ranks found, node of its level at which each search is; size: levels. All but the tree are
 * longer than the loop by the largest distance, for a last block that isn't full, and the last one also begins that much
 * earlier: the nearer stage prefetches what searches found lag - near iterations ago. */
BODY(tree_search)
{
    STAGES(loop);
    const int32_t *restrict wanted = (const int32_t *)loop->array[0] + loop->first;
    const struct node *restrict tree = loop->array[1];
    int32_t *restrict found = (int32_t *)loop->array[2] + loop->first;
    const int64_t levels = loop->size[0], count = loop->count;
    if (!near_hint && !far_hint) {
        for (int64_t search = 0; search < count; search++) {
            const struct node *level = tree;
            int32_t node = 0;
            for (int64_t k = 0, width = 1; k < levels; k++, level += width, width *= FAN_OUT)
                node = FAN_OUT * node + smaller(level + node, wanted[search]);
            found[search] = node;
        }
        return;
    }
    int32_t *restrict at = loop->array[3];
    const struct node *level[MOST_LEVELS];
    const int64_t lag = far > near ? far : near, blocks = (count + lag - 1) / lag;
    for (int64_t k = 0, width = 1; k < levels; k++, tree += width, width *= FAN_OUT)
        level[k] = tree;
    for (int64_t time = 0; time < blocks + levels - 1; time++) {
        const int64_t lowest = time < blocks ? 0 : time - blocks + 1, highest = time < levels ? time : levels - 1;
        for (int64_t place = 0; place < lag; place++) {
            int64_t search = (time - lowest) * lag + place;
            for (int64_t k = lowest; k <= highest; k++, search -= lag) {
                const int32_t node = k ? at[search] : 0;
                const int32_t next = FAN_OUT * node + smaller(level[k] + node, wanted[search]);
                at[search] = next;
                if (k + 1 == levels) {
                    found[search] = next;
                    break;
                }
                fetch(far_hint, level[k + 1] + at[search - (lag - far)]);
                fetch(near_hint, level[k + 1] + at[search - (lag - near)]);
            }
        }
    }
}

/* A linked list, summed up, with an array of pointers to its nodes in the list's order. An iteration is a node.
 * array: pointers to the nodes. */
BODY(list)
{
    STAGES(loop);
    const struct item *const *restrict index = loop->array[0];
    const int64_t end = loop->first + loop->count;
    const struct item *item = index[loop->first];
    uint64_t sum = 0;

    for (int64_t i = loop->first; i < end; i++) {
        fetch(far_hint, index[i + far]);
        fetch(near_hint, index[i + near]);
        sum += item->value;
        item = item->next;
    }
    loop->result = (int64_t)sum;
}
