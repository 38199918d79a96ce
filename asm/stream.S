/* Streaming kernels: one loop over up to four arrays of doubles, in two forms.
 *
 * Unrolled, a round takes 256 bytes of every array, so that the loop itself costs little. Rolled, it takes a single
 * access: every array has one instruction then, and a prefetcher that follows instruction addresses sees one stream
 * where it would see several.
 *
 * rcx points into the first array, rdx is the distance to the second and rbx that to the fourth, so that the arrays are
 * [rcx], [rcx+rdx], [rcx+rdx*2], [rcx+rbx]. The array that is written comes first: stores without an index have more
 * ports on some cores. rax counts rounds. Vector registers 0 and 2 to 7 only; 1 is the probe's zero, 8 to 15 hold values.
 * setebench/probe/kernels.py declares what each reads, writes and computes.
 *
 * Loops begin at a multiple of 64 bytes, here and in a probe, as snippets of streams are put at one: the same loop would
 * be faster in one probe than in another if some lay across two lines of instructions. */
#include "snippet.inc"

#define BLOCK 256

#define ARRAY_A rcx + place
#define ARRAY_B rcx + rdx + place
#define ARRAY_C rcx + rdx*2 + place
#define ARRAY_D rcx + rbx + place

    .macro BEGIN_STREAM
    mov     edx, OPERAND
    PATCH   FIELD_SPACING
    lea     rbx, [rdx + rdx*2]
    mov     eax, OPERAND
    PATCH   FIELD_COUNT
    .p2align 6
1:
    .set    place, 0
    .endm

    .macro NEXT_ROUND bytes:req
    add     rcx, \bytes
    dec     eax
    jnz     1b
    .endm

/* Two operands, or three with the first one twice where the instruction's names begin with v. */
    .macro ARITHMETIC v, name:req, to:req, from:vararg
    .ifb    \v
    \name   \to, \from
    .else
    \v\name \to, \to, \from
    .endif
    .endm

/* 3.0 in all of register 7; kernels.py says why not zero. */
    .macro FILL_SCALAR width:req, v
    mov     rax, 0x4008000000000000
    \v\()movq xmm7, rax
    .if     \width == 16
    unpcklpd xmm7, xmm7
    .elseif \width == 32
    vunpcklpd xmm7, xmm7, xmm7
    vinsertf128 ymm7, ymm7, xmm7, 1
    .elseif \width == 64
    vbroadcastsd zmm7, xmm7
    .endif
    .endm

    .macro STREAM_SNIPPET kernel:req, formula:req, feature, width:req, form
    SNIPPET "stream.\kernel\().\width\form", "stream: \formula", "\feature"
    .endm

/* What kernels are written in, by the arguments of STREAMS. KERNEL(name, formula, before, access): `before` the loop,
 * and for every access of a round. */
#define R(n) \register\()n
#define AT(from) \unit ptr [from]
#define LOAD(to, from) \move to, [from]
#define STORE(to, from) \move [to], from
#define STORE_NT(to, from) \
    .if \width == 8; movq rbx, from; movnti [to], rbx; .else; \v\()movntps [to], from; .endif
#define MOVE(to, from) \v\()movaps to, from
#define ADD(to, from) ARITHMETIC \v, add\type, to, from
#define SUB(to, from) ARITHMETIC \v, sub\type, to, from
#define MUL(to, from) ARITHMETIC \v, mul\type, to, from
#define ZERO(n) ARITHMETIC \v, \zero, R(n), R(n)
#define SCALAR FILL_SCALAR \width, \v

#define STREAM(kernel, formula) STREAM_SNIPPET kernel, formula, "\feature", \width, \form
#define EACH(...) .rept round / \width; __VA_ARGS__; .set place, place + \width; .endr
#define NEXT .ifb \form; NEXT_ROUND BLOCK; .else; NEXT_ROUND \width; .endif
#define KERNEL(kernel, formula, before, ...) \
    STREAM(kernel, formula); before; BEGIN_STREAM; EACH(__VA_ARGS__); NEXT; END_SNIPPET

/* All kernels in one width of accesses, in both forms. Instructions that take registers of more than 16 bytes have names
 * that begin with v; `type` is the end of those that compute. */
    .macro STREAMS width:req, feature, register:req, unit:req, move:req, type:req, zero:req, v
    .irp    form,, .rolled
    .set    round, BLOCK
    .ifnb   \form
    .set    round, \width
    .endif
    KERNEL(load, "a[i]", , LOAD(R(0), ARRAY_A))
    KERNEL(store, "a[i] = s", SCALAR, STORE(ARRAY_A, R(7)))
    KERNEL(store_nt, "a[i] = s, non-temporal", SCALAR, STORE_NT(ARRAY_A, R(7)))
    KERNEL(copy, "a[i] = b[i]", , LOAD(R(0), ARRAY_B); STORE(ARRAY_A, R(0)))
    KERNEL(copy_nt, "a[i] = b[i], non-temporal", , LOAD(R(0), ARRAY_B); STORE_NT(ARRAY_A, R(0)))
    KERNEL(scale, "a[i] = s * b[i]", SCALAR, LOAD(R(0), ARRAY_B); MUL(R(0), R(7)); STORE(ARRAY_A, R(0)))
    KERNEL(add, "a[i] = b[i] + c[i]", , LOAD(R(0), ARRAY_B); ADD(R(0), AT(ARRAY_C)); STORE(ARRAY_A, R(0)))
    KERNEL(update, "a[i] = s - a[i]", SCALAR, MOVE(R(0), R(7)); SUB(R(0), AT(ARRAY_A)); STORE(ARRAY_A, R(0)))

/* Four sums, or the chain of additions would be slower than the loads; they end up behind the first array. The rolled
 * form has one addition, so its sums change places every round. Four rounds make at most a block, so after whole blocks
 * they are where they were. */
    STREAM(ddot, "sum += a[i] * b[i]")
    ZERO(3)
    ZERO(4)
    ZERO(5)
    ZERO(6)
    BEGIN_STREAM
    .ifnb   \form
    LOAD(R(0), ARRAY_A)
    MUL(R(0), AT(ARRAY_B))
    ADD(R(0), R(3))
    MOVE(R(3), R(4))
    MOVE(R(4), R(5))
    MOVE(R(5), R(6))
    MOVE(R(6), R(0))
    .else
    .rept   round / \width / 4
    .irp    sum, R(3), R(4), R(5), R(6)
    LOAD(R(0), ARRAY_A)
    MUL(R(0), AT(ARRAY_B))
    ADD(\sum, R(0))
    .set    place, place + \width
    .endr
    .endr
    .endif
    NEXT
    .set    place, 0
    .irp    sum, R(3), R(4), R(5), R(6)
    STORE(ARRAY_A, \sum)
    .set    place, place + \width
    .endr
    END_SNIPPET

    KERNEL(daxpy, "a[i] = a[i] + s * b[i]", SCALAR,
           LOAD(R(0), ARRAY_B); MUL(R(0), R(7)); ADD(R(0), AT(ARRAY_A)); STORE(ARRAY_A, R(0)))
    KERNEL(triad, "a[i] = b[i] + s * c[i]", SCALAR,
           LOAD(R(0), ARRAY_C); MUL(R(0), R(7)); ADD(R(0), AT(ARRAY_B)); STORE(ARRAY_A, R(0)))
    KERNEL(triad_nt, "a[i] = b[i] + s * c[i], non-temporal", SCALAR,
           LOAD(R(0), ARRAY_C); MUL(R(0), R(7)); ADD(R(0), AT(ARRAY_B)); STORE_NT(ARRAY_A, R(0)))
    KERNEL(vector_triad, "a[i] = b[i] + c[i] * d[i]", ,
           LOAD(R(0), ARRAY_C); MUL(R(0), AT(ARRAY_D)); ADD(R(0), AT(ARRAY_B)); STORE(ARRAY_A, R(0)))

/* Chunks of 64 bytes in the order that kernels.py describes; rax is the chunk's offset, rbx its mask, edx counts. In one
 * form: what comes in no order teaches no prefetcher, whatever the instructions' addresses. */
    .ifb    \form
    STREAM(random, "a[i], 64-byte chunks in random order")
    mov     edx, OPERAND
    PATCH   FIELD_COUNT
    lea     rbx, [rdx*4 - 1]
    shl     rbx, 6
    xor     eax, eax
    .p2align 6
1:
    .rept   BLOCK / 64
    imul    rax, rax, 1664525
    add     rax, 12345 * 64
    and     rax, rbx
    .set    place, 0
    .rept   64 / \width
    LOAD(R(0), rcx + rax + place)
    .set    place, place + \width
    .endr
    .endr
    dec     edx
    jnz     1b
    END_SNIPPET
    .endif
    .endr
    .endm

    STREAMS 8, "", xmm, qword, movsd, sd, xorps
    STREAMS 16, "", xmm, xmmword, movups, pd, xorps
    STREAMS 32, "avx", ymm, ymmword, vmovups, pd, xorps, v
    STREAMS 64, "avx512f", zmm, zmmword, vmovups, pd, pxorq, v

/* Prefetches of every line; the program gets no data, so there is one width. */
    .macro PREFETCH_SNIPPET name:req, instruction:req, feature, bytes:req, form
    SNIPPET "stream.\name\form", "stream: \instruction of every line", "\feature"
    BEGIN_STREAM
    .rept   \bytes / 64
    \instruction [ARRAY_A]
    .set    place, place + 64
    .endr
    NEXT_ROUND \bytes
    END_SNIPPET
    .endm

    PREFETCH_SNIPPET prefetch_shared, prefetcht0, "", BLOCK
    PREFETCH_SNIPPET prefetch_shared, prefetcht0, "", 64, .rolled
    PREFETCH_SNIPPET prefetch_exclusive, prefetchw, 3dnowprefetch, BLOCK
    PREFETCH_SNIPPET prefetch_exclusive, prefetchw, 3dnowprefetch, 64, .rolled

    END_OF_FILE
