/* Every loop in every version: without prefetches, and with each pair of hints. Distances are arguments. */
#include "stages.h"

#define NEAR 0
#include "far_stages.h"
#undef NEAR
#define NEAR 1
#include "far_stages.h"
#undef NEAR
#define NEAR 2
#include "far_stages.h"
#undef NEAR
#define NEAR 3
#include "far_stages.h"
#undef NEAR
#define NEAR 4
#include "far_stages.h"
#undef NEAR
#define NEAR 5
#include "far_stages.h"
#undef NEAR

#define FAR_VERSIONS(name, near) \
    {name##_##near##0, name##_##near##1, name##_##near##2, name##_##near##3, name##_##near##4, name##_##near##5}
#define VERSIONS(name)                                                                                      \
    {FAR_VERSIONS(name, 0), FAR_VERSIONS(name, 1), FAR_VERSIONS(name, 2), FAR_VERSIONS(name, 3),            \
     FAR_VERSIONS(name, 4), FAR_VERSIONS(name, 5)}

const setebench_version setebench_versions[SETEBENCH_LOOPS][SETEBENCH_HINTS][SETEBENCH_HINTS] = {
    VERSIONS(matmul), VERSIONS(spmv), VERSIONS(triad), VERSIONS(stencil),
    VERSIONS(strided), VERSIONS(hash_join), VERSIONS(tree_search), VERSIONS(list),
};
