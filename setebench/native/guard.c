#define _GNU_SOURCE
#include "engine.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

static const int guarded_signals[] = {SIGSEGV, SIGILL, SIGBUS, SIGFPE};

static struct sigaction previous[_NSIG];

static __thread sigjmp_buf *escape;
static __thread struct setebench_call *running;

/* A signal outside the guard is not ours. An earlier handler gets it at once. Where there was none, put that back and
 * return, so that the instruction faults again; what someone sent must be sent again. */
static void pass_on(int signal_number, siginfo_t *info, void *context)
{
    const struct sigaction *before = &previous[signal_number];
    if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(signal_number, info, context);
    } else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN) {
        before->sa_handler(signal_number);
    } else {
        sigaction(signal_number, before, NULL);
        if (info->si_code <= 0)
            raise(signal_number);
    }
}

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    if (!running) {
        pass_on(signal_number, info, context);
        return;
    }
    running->signal = signal_number;
    const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t instruction = (uintptr_t)registers[REG_RIP];
    /* outside of it lie only shared accesses: the return address on the stack says which operation called one */
    if (instruction < (uintptr_t)running->code || instruction >= running->code_end)
        instruction = *(const uintptr_t *)registers[REG_RSP] - 1;
    running->fault_instruction = instruction;
    running->fault_address = (uintptr_t)info->si_addr;
    siglongjmp(*escape, 1);
}

int setebench_guard_install(void)
{
    int error = 0;
    /* not deferred: the handler is left by a jump, after which the same signal must still be deliverable */
    struct sigaction before, action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof guarded_signals / sizeof *guarded_signals && !error; i++)
        if (sigaction(guarded_signals[i], &action, &before))
            error = errno;
        else if (before.sa_sigaction != on_fault)
            previous[guarded_signals[i]] = before;
    return error;
}

/* The handler needs a stack of its own: a probe may have spoiled the thread's. Big enough for the widest vector state
 * that a kernel saves. It goes with its thread. */
static __thread char signal_stack[64 * 1024] __attribute__((aligned(64)));

int setebench_guard_prepare(void)
{
    static __thread int have;
    stack_t now;
    if (have)
        return 0;
    have = 1;
    if (sigaltstack(NULL, &now))
        return errno;
    if (!(now.ss_flags & SS_DISABLE))
        return 0;
    stack_t own = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
    return sigaltstack(&own, NULL) ? errno : 0;
}

int setebench_guard_run(struct setebench_call *call)
{
    sigjmp_buf here;
    int error = setebench_guard_prepare();
    if (error)
        return error;
    call->signal = 0;
    if (sigsetjmp(here, 0) == 0) {
        escape = &here;
        running = call;
        call->code(call->rows, call->results, call->repetitions, call->dither, call->meeting);
    }
    running = NULL;
    escape = NULL;
    /* whoever still waits at a barrier for this thread must not wait for ever */
    if (call->signal && call->meeting)
        call->meeting->arrived = INT64_MAX / 2;
    return 0;
}
