/* Order and time: fences, and instructions that touch no memory. */
#include "snippet.inc"

/* On Intel mfence orders memory operations but not instructions; the lfence makes both kinds wait everywhere. */
    SNIPPET "fence.m", "memory operations before are done before any after", ""
    mfence
    lfence
    END_SNIPPET

    SNIPPET "fence.l", "instructions before are done before any after start", ""
    lfence
    END_SNIPPET

    SNIPPET "fence.s", "stores before are seen before stores after", ""
    sfence
    END_SNIPPET

    SNIPPET "fence.serialize", "cpuid", ""
    xor     eax, eax
    cpuid
    END_SNIPPET

/* Not `pause`: how long that takes differs a hundredfold between cores, and guests may leave for the hypervisor. */
    SNIPPET "wait", "count down, about one cycle a round", ""
    mov     eax, OPERAND
    PATCH   FIELD_COUNT
1:  dec     eax
    jnz     1b
    END_SNIPPET

    SNIPPET "nop", "one no-operation", ""
    nop
    END_SNIPPET

    SNIPPET "nop.long", "one no-operation of eight bytes", ""
    .byte   0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00
    END_SNIPPET

    SNIPPET "multiply.chained", "multiplication that needs the one before", ""
    imul    rax, rax
    END_SNIPPET

    SNIPPET "multiply.free", "multiplication that needs no other", ""
    imul    rax, rdx, 7
    END_SNIPPET

/* Register plus register: some cores fold an immediate away at rename, and fewer cycles would pass than are counted. */
    SNIPPET "add", "addition that needs the one before, one cycle", ""
    add     rax, rdx
    END_SNIPPET

    SNIPPET "transfer", "integer to vector register and back", ""
    movq    xmm2, rax
    movq    rax, xmm2
    END_SNIPPET

    END_OF_FILE
