/* Pointer chases: each load's address is the value of the one before, so a step lasts one load-to-use latency. */
#include "snippet.inc"

/* A load, and a transfer of its value where one is given, as often as the count says. Eight steps share one decrement and
 * branch: what runs beside a long miss has to fit into the core's window with it, and a step is then hardly more than the
 * load itself. */
    .macro STEPS load:req, transfer
    mov     edx, OPERAND
    PATCH   FIELD_COUNT
    mov     ebx, edx
    and     ebx, 7
    jz      2f
1:  \load   [rax]
    \transfer
    dec     ebx
    jnz     1b
2:  shr     edx, 3
    jz      2f
1:  .rept   8
    \load   [rax]
    \transfer
    .endr
    dec     edx
    jnz     1b
2:
    .endm

    .macro PLAIN size:req, description, feature, load:req, transfer
    .macro body base
    lea     rax, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    STEPS   "\load", "\transfer"
    .endm
    ACCESS  "chase\size", "follow pointers by \size\()-byte loads\description", "\feature"
    .endm

    PLAIN   8, "", "", "mov rax,"
    PLAIN   16, " and a transfer", "", "movups xmm0,", "movq rax, xmm0"
    PLAIN   32, " and a transfer", "avx", "vmovups ymm0,", "vmovq rax, xmm0"
    PLAIN   64, " and a transfer", "avx512f", "vmovups zmm0,", "vmovq rax, xmm0"

/* The modified latency benchmarks of Molka et al. 2017, section 4.3: 24 multiplications a step (the count is
 * setebench.probe.CHASE_WORK). With three operands each writes rbx without reading it, and rdx is ready long before:
 * renaming makes them independent of the chase and of each other. */
    .macro WORKING name:req, description:req, multiplication:vararg
    .macro body base
    lea     rax, [\base + OPERAND]
    PATCH   FIELD_OFFSET
    mov     edx, OPERAND
    PATCH   FIELD_COUNT
1:  mov     rax, [rax]
    .rept   24
    \multiplication
    .endr
    dec     edx
    jnz     1b
    .endm
    ACCESS  "chase8.\name", "follow pointers\description", ""
    .endm

    WORKING free, ", with 24 multiplications a step that need nothing", imul rbx, rdx, 7
    WORKING chained, " that 24 multiplications by 1 delay", imul rax, rax, 1

    END_OF_FILE
