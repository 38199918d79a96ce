/* Order and time: fences, and instructions that touch no memory. */
#include "snippet.inc"

/* On Intel mfence orders memory operations but not instructions; the lfence makes both kinds wait everywhere. */
    SNIPPET "fence.m", "memory operations before are done before any after", "", TOUCH_FENCE
    mfence
    lfence
    END_SNIPPET

    SNIPPET "fence.l", "instructions before are done before any after start", "", TOUCH_FENCE
    lfence
    END_SNIPPET

    SNIPPET "fence.s", "stores before are seen before stores after", "", TOUCH_FENCE
    sfence
    END_SNIPPET

    SNIPPET "fence.serialize", "cpuid", "", TOUCH_FENCE
    xor     eax, eax
    cpuid
    END_SNIPPET

/* Not `pause`: how long that takes differs a hundredfold between cores, and guests may leave for the hypervisor. */
    SNIPPET "wait", "count down, about one cycle a round", "", TOUCH_NONE
    mov     eax, OPERAND
    PATCH   FIELD_COUNT
1:  dec     eax
    jnz     1b
    END_SNIPPET

    SNIPPET "nop", "one no-operation", "", TOUCH_NONE
    nop
    END_SNIPPET

    SNIPPET "nop.long", "one no-operation of eight bytes", "", TOUCH_NONE
    .byte   0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00
    END_SNIPPET

    SNIPPET "multiply.chained", "multiplication that needs the one before", "", TOUCH_NONE
    imul    rax, rax
    END_SNIPPET

    SNIPPET "multiply.free", "multiplication that needs no other", "", TOUCH_NONE
    imul    rax, rdx, 7
    END_SNIPPET

/* Register plus register: some cores fold an immediate away at rename, and fewer cycles would pass than are counted. */
    SNIPPET "add", "addition that needs the one before, one cycle", "", TOUCH_NONE
    add     rax, rdx
    END_SNIPPET

    SNIPPET "transfer", "integer to vector register and back", "", TOUCH_NONE
    movq    xmm2, rax
    movq    rax, xmm2
    END_SNIPPET

    END_OF_FILE
