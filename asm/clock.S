/* Clock brackets. A start leaves the time in the interval's slot, a stop replaces it by the difference.
 *
 * lfence waits until every earlier instruction has its result and lets no later one begin. So a start is
 * "fence; read; fence": without the first, earlier work leaks into the interval; without the second, the timed access
 * may begin before the clock is read. The stop needs the first for the timed access and the last for what follows.
 * The packing (shl, or, mov) stands inside the start's fences: it belongs to the overhead, which is measured with an
 * empty interval and taken off.
 */
#include "snippet.inc"

/* The slot's line and translation, so that keeping the start's time in it takes no page walk behind a traversal of more
 * pages than the TLB holds: thousands of cycles in a guest, and an empty interval does not show them. */
    .macro TOUCH_SLOT
    mov     [rsp + OPERAND], rax
    PATCH   FIELD_SLOT
    .endm

    .macro KEEP_START
    shl     rdx, 32
    or      rax, rdx
    mov     [rsp + OPERAND], rax
    PATCH   FIELD_SLOT
    .endm

    .macro KEEP_ELAPSED
    shl     rdx, 32
    or      rax, rdx
    sub     rax, [rsp + OPERAND]
    PATCH   FIELD_SLOT
    mov     [rsp + OPERAND], rax
    PATCH   FIELD_SLOT
    .endm

    .macro BRACKET name:req, description:req, feature, read:req
    SNIPPET "start.\name", "\description", "\feature"
    TOUCH_SLOT
    \read
    KEEP_START
    lfence
    END_SNIPPET

    SNIPPET "stop.\name", "\description", "\feature"
    \read
    lfence
    KEEP_ELAPSED
    END_SNIPPET
    .endm

    BRACKET lfence, "lfence; rdtsc; lfence", "", "lfence; rdtsc"
/* rdtscp waits for earlier instructions by itself, but lets later ones begin: hence the fence behind it. */
    BRACKET rdtscp, "rdtscp; lfence", rdtscp, rdtscp
/* mfence also waits for earlier stores and flushes to reach the cache. */
    BRACKET mfence, "mfence; lfence; rdtsc; lfence", "", "mfence; lfence; rdtsc"
/* Counts core cycles (APERF), not ticks, where the system lets user code read them. */
    BRACKET rdpru, "lfence; rdpru; lfence", rdpru, "mov ecx, 1; lfence; rdpru"

/* The bracket of Fang et al. 2014, 3.1: cpuid serialises fully; the multiplications need the timed load's value (rax),
 * so they cover the time that rdtscp's own serialisation takes. In a guest cpuid leaves for the hypervisor. */
    SNIPPET "start.cpuid", "cpuid; rdtsc", ""
    TOUCH_SLOT
    xor     eax, eax
    cpuid
    rdtsc
    KEEP_START
    END_SNIPPET

    SNIPPET "stop.cpuid", "dependent filler; rdtscp; cpuid", "rdtscp"
    .rept   16
    imul    rax, rax
    .endr
    rdtscp
    KEEP_ELAPSED
    xor     eax, eax
    cpuid
    END_SNIPPET

/* A random wait of r15's next entry plus one rounds. Its last branch is mispredicted, but the start that follows
 * fences, so that does not reach the interval. */
    SNIPPET "dither", "random wait before a start", ""
    mov     eax, [r15]
    add     r15, 4
1:  dec     eax
    jns     1b
    END_SNIPPET

    END_OF_FILE
