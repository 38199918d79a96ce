/* The same loops without stages of ours, with the prefetches that the compiler puts in by itself: what a user gets for
 * an option and no thought. Only gcc has that option; elsewhere the table is empty. */
#include "stages.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("prefetch-loop-arrays")

#define NEAR 0
#define FAR 0
#include "bodies.h"

const setebench_version setebench_compilers[SETEBENCH_LOOPS] = {
    matmul_00, spmv_00, triad_00, stencil_00, strided_00, hash_join_00, tree_search_00, list_00,
};
#else
const setebench_version setebench_compilers[SETEBENCH_LOOPS] = {0};
#endif
