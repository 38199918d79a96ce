/* The loop around a probe, and the glue between its operations. Called as
 *
 *     void stitched(const int64_t *rows, int64_t *results, int64_t repetitions, const int32_t *dither,
 *                   struct meeting *meeting);
 *
 * A repetition: fetch the bases, fence, run the operations, copy the elapsed ticks to the result row. Results are kept
 * on the stack until then, so no store of ours misses a cache while something is timed.
 */
#include "snippet.inc"

    SNIPPET "driver.enter", "save registers, make the frame", ""
    push    rbp
    push    rbx
    push    r12
    push    r13
    push    r14
    push    r15
    mov     rax, rsp
    sub     rsp, FRAME_BYTES
    and     rsp, -64
    mov     [rsp + SLOT_SAVED_RSP], rax
    mov     [rsp + SLOT_BARRIER], r8
    mov     qword ptr [rsp + SLOT_MEETING], 0
    mov     r12, rdi
    mov     r13, rsi
    mov     r14, rdx
    mov     r15, rcx
    xor     ebp, ebp
    xorps   xmm0, xmm0
    xorps   xmm1, xmm1
    END_SNIPPET

/* Rows hold complements of addresses. A row of addresses that are loaded at a stride and then followed is what a
 * prefetcher of arrays of pointers waits for: on a Golden Cove it brought two in three lines of the next repetitions to
 * the first cache, flushed ones too. */
    .macro body base
    mov     \base, [r12 + OPERAND]
    PATCH   FIELD_ROW
    not     \base
    .endm
    ACCESS "driver.base", "fetch a base from the placement row", ""

    SNIPPET "driver.touch", "bring a line of the placement row near", ""
    mov     rax, [r12 + OPERAND]
    PATCH   FIELD_ROW
    END_SNIPPET

/* What the fetches above missed must not still be under way when the probe begins. */
    SNIPPET "driver.begin", "separate a repetition from the one before", ""
    lfence
    END_SNIPPET

    SNIPPET "driver.result", "copy an interval's ticks to the result row", ""
    mov     rax, [rsp + OPERAND]
    PATCH   FIELD_SLOT
    mov     [r13 + OPERAND], rax
    PATCH   FIELD_RESULT
    END_SNIPPET

    SNIPPET "driver.next", "next repetition", ""
    add     r12, OPERAND
    PATCH   FIELD_ROW_SIZE
    add     r13, OPERAND
    PATCH   FIELD_RESULT_SIZE
    prefetcht0 [r12]
    prefetcht0 [r13]
    dec     r14
    .byte   0x0f, 0x85
    .long   0
    PATCH   FIELD_TARGET
    END_SNIPPET

    SNIPPET "driver.leave", "restore registers and return", ""
    mov     rsp, [rsp + SLOT_SAVED_RSP]
    pop     r15
    pop     r14
    pop     r13
    pop     r12
    pop     rbx
    pop     rbp
    ret
    END_SNIPPET

/* Upper halves left over from wide loads would slow every later SSE instruction of the process. */
    SNIPPET "driver.vzeroupper", "leave the vector registers clean", "avx"
    vzeroupper
    END_SNIPPET

    .macro body base
    mov     rcx, \base
    .endm
    ACCESS "address.base", "computed address: a base", ""

    SNIPPET "address.row", "computed address: a base that has no register", ""
    mov     rcx, [r12 + OPERAND]
    PATCH   FIELD_ROW
    not     rcx
    END_SNIPPET

    SNIPPET "address.offset", "computed address: plus an offset", ""
    add     rcx, OPERAND
    PATCH   FIELD_OFFSET
    END_SNIPPET

    SNIPPET "address.advance", "computed address: plus the advance of the repeat", ""
    add     rcx, rbp
    END_SNIPPET

/* `and` with zero is not known to cores as a way to make zero: the address still waits for the value. */
    SNIPPET "depend.latest", "computed address: wait for the load just before", ""
    and     eax, 0
    add     rcx, rax
    END_SNIPPET

    SNIPPET "depend.vector", "move a vector load's value to rax", ""
    movq    rax, xmm0
    END_SNIPPET

    .irp    register, 8, 9, 10, 11, 12, 13, 14, 15
    SNIPPET "depend.keep\register", "keep a load's value for a later address", ""
    and     eax, 0
    movq    xmm\register, rax
    END_SNIPPET

    SNIPPET "depend.use\register", "computed address: wait for a value kept earlier", ""
    movq    rax, xmm\register
    add     rcx, rax
    END_SNIPPET
    .endr

    SNIPPET "repeat.begin", "set the rounds of a repeat", ""
    mov     r11d, OPERAND
    PATCH   FIELD_COUNT
    xor     ebp, ebp
    END_SNIPPET

    SNIPPET "repeat.end", "advance, and go round again", ""
    add     rbp, OPERAND
    PATCH   FIELD_OFFSET
    dec     r11
    .byte   0x0f, 0x85
    .long   0
    PATCH   FIELD_TARGET
    END_SNIPPET

    SNIPPET "call", "run the access of a shared instruction address", ""
    .byte   0xe8
    .long   0
    PATCH   FIELD_TARGET
    END_SNIPPET

    SNIPPET "return", "end of a shared access", ""
    ret
    END_SNIPPET

/* All threads count up one shared number; each knows at which count the next meeting is complete. The meeting's second
 * word is the number of threads. A thread that faults sets the count so high that nobody waits for it. */
    SNIPPET "barrier", "wait until every thread has come here", ""
    mov     rdx, [rsp + SLOT_BARRIER]
    mov     rax, [rsp + SLOT_MEETING]
    add     rax, [rdx + 64]
    mov     [rsp + SLOT_MEETING], rax
    lock inc qword ptr [rdx]
1:  pause
    cmp     [rdx], rax
    jl      1b
    lfence
    END_SNIPPET

    END_OF_FILE
