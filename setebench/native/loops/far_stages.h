/* Every loop with every hint of the L2 stage (and none), for the hint NEAR of the L1 stage. Included once for each. */
#define FAR 0
#include "bodies.h"
#undef FAR
#define FAR 1
#include "bodies.h"
#undef FAR
#define FAR 2
#include "bodies.h"
#undef FAR
#define FAR 3
#include "bodies.h"
#undef FAR
#define FAR 4
#include "bodies.h"
#undef FAR
#define FAR 5
#include "bodies.h"
#undef FAR
