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

    .macro STREAM_SNIPPET kernel:req, formula:req, feature, width:req, form
    SNIPPET "stream.\kernel\().\width\form", "stream: \formula", "\feature"
    .endm

    .macro NEXT_ROUND bytes:req
    add     rcx, \bytes
    dec     eax
    jnz     1b
    .endm

/* 3.0; kernels.py says why not zero. */
#define SCALAR_BITS 0x4008000000000000

#define WIDTH 8
#define FEATURE ""
#define R(n) xmm##n
#define LOAD(to, from) movsd to, qword ptr [from]
#define STORE(to, from) movsd qword ptr [to], from
#define STORE_NT(to, from) movq rbx, from; movnti [to], rbx
#define MOVE(to, from) movaps to, from
#define ADD(to, from) addsd to, from
#define SUB(to, from) subsd to, from
#define MUL(to, from) mulsd to, from
#define AT(from) qword ptr [from]
#define ZERO(n) xorps xmm##n, xmm##n
#define SCALAR mov rax, SCALAR_BITS; movq xmm7, rax
#include "stream_width.inc"

#define WIDTH 16
#define FEATURE ""
#define R(n) xmm##n
#define LOAD(to, from) movups to, [from]
#define STORE(to, from) movups [to], from
#define STORE_NT(to, from) movntps [to], from
#define MOVE(to, from) movaps to, from
#define ADD(to, from) addpd to, from
#define SUB(to, from) subpd to, from
#define MUL(to, from) mulpd to, from
#define AT(from) xmmword ptr [from]
#define ZERO(n) xorps xmm##n, xmm##n
#define SCALAR mov rax, SCALAR_BITS; movq xmm7, rax; unpcklpd xmm7, xmm7
#include "stream_width.inc"

#define WIDTH 32
#define FEATURE "avx"
#define R(n) ymm##n
#define LOAD(to, from) vmovups to, [from]
#define STORE(to, from) vmovups [to], from
#define STORE_NT(to, from) vmovntps [to], from
#define MOVE(to, from) vmovaps to, from
#define ADD(to, from) vaddpd to, to, from
#define SUB(to, from) vsubpd to, to, from
#define MUL(to, from) vmulpd to, to, from
#define AT(from) ymmword ptr [from]
#define ZERO(n) vxorps ymm##n, ymm##n, ymm##n
#define SCALAR \
    mov rax, SCALAR_BITS; vmovq xmm7, rax; vunpcklpd xmm7, xmm7, xmm7; vinsertf128 ymm7, ymm7, xmm7, 1
#include "stream_width.inc"

#define WIDTH 64
#define FEATURE "avx512f"
#define R(n) zmm##n
#define LOAD(to, from) vmovups to, [from]
#define STORE(to, from) vmovups [to], from
#define STORE_NT(to, from) vmovntps [to], from
#define MOVE(to, from) vmovaps to, from
#define ADD(to, from) vaddpd to, to, from
#define SUB(to, from) vsubpd to, to, from
#define MUL(to, from) vmulpd to, to, from
#define AT(from) zmmword ptr [from]
#define ZERO(n) vpxorq zmm##n, zmm##n, zmm##n
#define SCALAR mov rax, SCALAR_BITS; vmovq xmm7, rax; vbroadcastsd zmm7, xmm7
#include "stream_width.inc"

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
