/* Runs stitched code so that a CPU exception in it comes back as a value. */
#ifndef SETEBENCH_GUARD_H
#define SETEBENCH_GUARD_H

#include <stdint.h>

#include "snippets.h"

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

/* Take over SIGSEGV, SIGILL, SIGBUS and SIGFPE for code that runs under the guard, and give them back. Others' faults
 * go to the handler that was there before. Calls nest; 0 on success, else errno. */
int setebench_guard_install(void);
void setebench_guard_remove(void);

/* Get ready what a thread needs for its first run, so that no run is disturbed by it: 0, or errno if no signal stack
 * could be had. Every run does this, too. */
int setebench_guard_prepare(void);

/* Run one call in this thread. The guard must be installed. Returns 0, or errno if no signal stack could be had. */
int setebench_guard_run(struct setebench_call *call);

/* Let everyone go who waits at a meeting's barriers, now or later. */
void setebench_meeting_abandon(struct setebench_meeting *meeting);

#endif
