/* Pointer chases: each load's address is the value of the one before, so a step lasts one load-to-use latency. */
#include "snippet.inc"

    .macro body base
    lea     rax, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    mov     edx, OPERAND
    PATCH   FIELD_COUNT
1:  mov     rax, [rax]
    dec     edx
    jnz     1b
    .endm
    ACCESS "chase8", "follow pointers by 8-byte loads", "", TOUCH_LOAD, 8

    .macro body base
    lea     rax, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    mov     edx, OPERAND
    PATCH   FIELD_COUNT
1:  movups  xmm0, [rax]
    movq    rax, xmm0
    dec     edx
    jnz     1b
    .endm
    ACCESS "chase16", "follow pointers by 16-byte loads and a transfer", "", TOUCH_LOAD, 16

    .macro body base
    lea     rax, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    mov     edx, OPERAND
    PATCH   FIELD_COUNT
1:  vmovups ymm0, [rax]
    vmovq   rax, xmm0
    dec     edx
    jnz     1b
    .endm
    ACCESS "chase32", "follow pointers by 32-byte loads and a transfer", "avx", TOUCH_LOAD, 32

    .macro body base
    lea     rax, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    mov     edx, OPERAND
    PATCH   FIELD_COUNT
1:  vmovups zmm0, [rax]
    vmovq   rax, xmm0
    dec     edx
    jnz     1b
    .endm
    ACCESS "chase64", "follow pointers by 64-byte loads and a transfer", "avx512f", TOUCH_LOAD, 64

    END_OF_FILE
