/* What C, Cython and the assembler share: the snippet table, the frame of stitched code, the guard that runs it. */
#ifndef SETEBENCH_ENGINE_H
#define SETEBENCH_ENGINE_H

/* Kinds of a patched field, the last four bytes of an instruction but for those that PATCH (asm/snippet.inc) names. */
#define FIELD_NONE        0
#define FIELD_OFFSET      1 /* offset from the base */
#define FIELD_COUNT       2 /* count */
#define FIELD_SLOT        3 /* offset of an interval's slot from rsp */
#define FIELD_ROW         4 /* offset into the placement row */
#define FIELD_TARGET      5 /* branch displacement */
#define FIELD_RESULT      6 /* offset into the result row */
#define FIELD_ROW_SIZE    7 /* bytes of a placement row */
#define FIELD_RESULT_SIZE 8 /* bytes of a result row */
#define FIELD_SPACING     9 /* bytes from one array of a stream to the next */

#ifndef __ASSEMBLER__
#include <stdint.h>

struct setebench_field {
    int32_t kind;
    int32_t end; /* bytes from the snippet's begin to the end of the 4-byte field */
};

/* A row of the table as the assembler writes it (asm/snippet.inc). */
struct setebench_snippet {
    const char *name;
    const char *description;
    const char *feature;
    const unsigned char *code;
    int32_t code_bytes;
    int32_t base; /* which base register the variant uses, -1 for none */
    struct setebench_field fields[3];
};

extern const struct setebench_snippet __start_setebench_snippets[] __attribute__((visibility("hidden")));
extern const struct setebench_snippet __stop_setebench_snippets[] __attribute__((visibility("hidden")));

/* Where threads meet, as the barrier snippet reads it: a count that only grows, and 64 bytes on (another line) the
 * number of threads. */
struct setebench_meeting {
    volatile int64_t arrived;
    char apart[56];
    int64_t threads;
};

typedef void (*setebench_stitched)(const int64_t *rows, int64_t *results, int64_t repetitions, const int32_t *dither,
                                   struct setebench_meeting *meeting);

struct setebench_call {
    setebench_stitched code;
    uintptr_t code_end; /* behind the driver and the operations; shared accesses lie elsewhere */
    const int64_t *rows;
    int64_t *results;
    int64_t repetitions;
    const int32_t *dither;
    struct setebench_meeting *meeting;
    /* filled in on return */
    int signal; /* 0, or the signal that ended the run */
    uintptr_t fault_instruction; /* in a shared access: inside the call that led there */
    uintptr_t fault_address;
};

/* Take over SIGSEGV, SIGILL, SIGBUS and SIGFPE, for code that runs under the guard; also again, if someone else has
 * since; with the interpreter's lock held. Others' faults go to the handler that was there before. 0 on success, else
 * errno. */
int setebench_guard_install(void);

/* Get ready what a thread needs for its first run, so that no run is disturbed by it: 0, or errno if no signal stack
 * could be had. Every run does this, too. */
int setebench_guard_prepare(void);

/* Run one call in this thread. The guard must be installed. Returns 0, or errno if no signal stack could be had. */
int setebench_guard_run(struct setebench_call *call);

#endif
#endif
