/* Pointer chases: each load's address is the value of the one before, so a step lasts one load-to-use latency. */
#include "snippet.inc"

/* `step`, as often as the count says. Eight steps share one decrement and branch: what runs beside a long miss has to
 * fit into the core's window with it, and a step is then hardly more than the load itself. */
    .macro STEPS step:vararg
    mov     edx, OPERAND
    PATCH   FIELD_COUNT
    mov     ebx, edx
    and     ebx, 7
    jz      2f
1:  \step
    dec     ebx
    jnz     1b
2:  shr     edx, 3
    jz      2f
1:  .rept   8
    \step
    .endr
    dec     edx
    jnz     1b
2:
    .endm

    .macro step8
    mov     rax, [rax]
    .endm

    .macro step16
    movups  xmm0, [rax]
    movq    rax, xmm0
    .endm

    .macro step32
    vmovups ymm0, [rax]
    vmovq   rax, xmm0
    .endm

    .macro step64
    vmovups zmm0, [rax]
    vmovq   rax, xmm0
    .endm

    .macro body base
    lea     rax, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    STEPS   step8
    .endm
    ACCESS "chase8", "follow pointers by 8-byte loads", "", TOUCH_LOAD, 8

    .macro body base
    lea     rax, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    STEPS   step16
    .endm
    ACCESS "chase16", "follow pointers by 16-byte loads and a transfer", "", TOUCH_LOAD, 16

    .macro body base
    lea     rax, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    STEPS   step32
    .endm
    ACCESS "chase32", "follow pointers by 32-byte loads and a transfer", "avx", TOUCH_LOAD, 32

    .macro body base
    lea     rax, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    STEPS   step64
    .endm
    ACCESS "chase64", "follow pointers by 64-byte loads and a transfer", "avx512f", TOUCH_LOAD, 64

/* The two below are the modified latency benchmarks of Molka et al. 2017, section 4.3: 24 multiplications a step (the
 * count is setebench.probe.CHASE_WORK). With three operands each writes rbx without reading it, and rdx is ready long
 * before: renaming makes them independent of the chase and of each other. */
    .macro body base
    lea     rax, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    mov     edx, OPERAND
    PATCH   FIELD_COUNT
1:  mov     rax, [rax]
    .rept   24
    imul    rbx, rdx, 7
    .endr
    dec     edx
    jnz     1b
    .endm
    ACCESS "chase8.free", "follow pointers, with 24 multiplications a step that need nothing", "", TOUCH_LOAD, 8

    .macro body base
    lea     rax, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    mov     edx, OPERAND
    PATCH   FIELD_COUNT
1:  mov     rax, [rax]
    .rept   24
    imul    rax, rax, 1
    .endr
    dec     edx
    jnz     1b
    .endm
    ACCESS "chase8.chained", "follow pointers that 24 multiplications by 1 delay", "", TOUCH_LOAD, 8

    END_OF_FILE
