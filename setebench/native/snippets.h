/* The snippet table as the assembler writes it (asm/snippet.inc), and the meeting point of threads. */
#ifndef SETEBENCH_SNIPPETS_H
#define SETEBENCH_SNIPPETS_H

#include <stdint.h>

#define SETEBENCH_FIELDS 3

struct setebench_field {
    int32_t kind;
    int32_t end; /* bytes from the snippet's begin to the end of the 4-byte field */
};

struct setebench_snippet {
    const char *name;
    const char *description;
    const char *feature;
    const unsigned char *code;
    int32_t code_bytes;
    int32_t touches;
    int32_t size;
    int32_t base; /* which base register the variant uses, -1 for none */
    struct setebench_field fields[SETEBENCH_FIELDS];
};

extern const struct setebench_snippet __start_setebench_snippets[] __attribute__((visibility("hidden")));
extern const struct setebench_snippet __stop_setebench_snippets[] __attribute__((visibility("hidden")));

static inline const struct setebench_snippet *setebench_snippets_begin(void) { return __start_setebench_snippets; }
static inline const struct setebench_snippet *setebench_snippets_end(void) { return __stop_setebench_snippets; }

/* What the barrier snippet reads: a count that only grows, and 64 bytes on (another line) the number of threads. */
struct setebench_meeting {
    volatile int64_t arrived;
    char apart[56];
    int64_t threads;
};

#endif
