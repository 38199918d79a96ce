/* setebench.h: marks regions of a program, so that `setebench counters stat -- PROGRAM` counts their events apart.
 *
 *     #include <setebench.h>
 *
 *     setebench_region_begin("solve");
 *     solve();
 *     setebench_region_end("solve");
 *
 * There is nothing to link (with glibc before 2.34: -pthread). A program that is not run under `setebench counters stat` pays one branch per mark. Under
 * it, every thread opens counters of its own when it first comes to a mark, and adds what they counted between the
 * outermost begin and its end to a record of its own (thread, region) in memory that it shares with setebench.
 *
 * Regions may nest, be entered again from within, overlap, and be begun in one source file and ended in another. A
 * region belongs to the thread that begins it: threads and processes that are begun within count for regions of their
 * own. Names are compared up to 95 bytes. Neither function changes errno or fails: what could not be counted is in
 * setebench's report.
 *
 * For C99, C11, C++11 and newer, gcc and clang, Linux on x86-64; elsewhere, and where SETEBENCH_NO_REGIONS is defined,
 * the two functions do nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SETEBENCH_H
#define SETEBENCH_H

#if defined(__x86_64__) && !defined(__ILP32__) && defined(__linux__) && defined(__GNUC__) && \
    !defined(SETEBENCH_NO_REGIONS)

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

/* Names that end in _ are private. One instance of each variable serves all source files of a program. */
#define SETEBENCH_ONE_ __attribute__((weak, visibility("default")))
#define SETEBENCH_FUNCTION_ static __attribute__((unused))
#define SETEBENCH_OUT_OF_LINE_ static __attribute__((unused, noinline, cold))

enum {
    SETEBENCH_EVENTS_ = 16,
    SETEBENCH_NAME_ = 96,
    SETEBENCH_ATTRIBUTES_ = 136,
    SETEBENCH_NOTHING_READ_ = -1, /* the kernel gave no bytes: no counter was free */
    SETEBENCH_HIGH_ = 512         /* descriptors are moved above those that a program opens and closes in rows */
};

/* The shared file: this head in its first 4,096 bytes, then records. setebench/native/perf/program/region_file.py is the
 * other side of it. */
struct setebench_head_ {
    char magic[8];
    uint32_t events, records; /* how many there are */
    uint32_t next;            /* the next free record */
    uint32_t lost;            /* begins that found no free record */
    uint32_t unmatched;       /* ends of regions that this thread had not begun */
    uint32_t unused[9];
    struct {
        unsigned char attributes[SETEBENCH_ATTRIBUTES_]; /* struct perf_event_attr, its size within */
        uint32_t unused[2];
    } event[SETEBENCH_EVENTS_];
};

/* Of each event the times enabled and running, and the count. */
typedef uint64_t setebench_counts_[SETEBENCH_EVENTS_][3];

struct setebench_record_ {
    char name[SETEBENCH_NAME_];
    uint64_t calls;       /* begins */
    uint64_t nanoseconds; /* between outermost begins and their ends */
    uint64_t begun;
    uint32_t process, thread;
    uint32_t depth; /* begins without an end so far */
    uint32_t next;  /* 1 + index of another record of the same thread; 0 at the end */
    int32_t error[SETEBENCH_EVENTS_];
    setebench_counts_ sum, start;
    uint64_t unused[7];
};

struct setebench_thread_ {
    uint32_t process, thread;
    uint32_t first; /* 1 + index of a record of this thread */
    int32_t fd[SETEBENCH_EVENTS_];
    int32_t error[SETEBENCH_EVENTS_];
    setebench_counts_ now;
};

SETEBENCH_ONE_ struct setebench_head_ *setebench_file_; /* NULL where nothing is counted */
SETEBENCH_ONE_ pthread_key_t setebench_key_;
SETEBENCH_ONE_ __thread struct setebench_thread_ setebench_self_;

/* Calls of the kernel past the C library: they leave errno alone, and need none of its feature macros. */
SETEBENCH_FUNCTION_ long setebench_call_(long number, long a, long b, long c, long d, long e)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

SETEBENCH_FUNCTION_ long setebench_call3_(long number, long a, long b, long c)
{
    return setebench_call_(number, a, b, c, 0, 0);
}

SETEBENCH_FUNCTION_ uint64_t setebench_now_(void)
{
    int64_t time[2] = {0, 0};
    setebench_call3_(SYS_clock_gettime, 1 /* CLOCK_MONOTONIC */, (long)time, 0);
    return (uint64_t)time[0] * 1000000000u + (uint64_t)time[1];
}

SETEBENCH_FUNCTION_ struct setebench_record_ *setebench_record_at_(uint32_t index)
{
    return (struct setebench_record_ *)(void *)((char *)setebench_file_ + 4096) + index;
}

/* All of the file, its pages in place already: a fault of ours would be counted in the region around it. */
SETEBENCH_FUNCTION_ struct setebench_head_ *setebench_map_(const char *path)
{
    const long writable = 3, shared_and_populated = 0x8001, read_write_close_on_exec = 02000002;
    struct setebench_head_ *head;
    long bytes, memory, fd = setebench_call3_(SYS_open, (long)path, read_write_close_on_exec, 0);

    if (fd < 0)
        return NULL;
    bytes = setebench_call3_(SYS_lseek, fd, 0, 2);
    memory = bytes < 4096 ? -1 : setebench_call_(SYS_mmap, 0, bytes, writable, shared_and_populated, fd);
    setebench_call3_(SYS_close, fd, 0, 0);
    if (memory < 0 && memory > -4096)
        return NULL;
    head = (struct setebench_head_ *)memory;
    if (memcmp(head->magic, "SETEBRG1", 8) == 0 && head->events <= SETEBENCH_EVENTS_ &&
        4096 + (long)head->records * (long)sizeof(struct setebench_record_) <= bytes)
        return head;
    setebench_call3_(SYS_munmap, memory, bytes, 0);
    return NULL;
}

SETEBENCH_FUNCTION_ void setebench_close_counters_(void *thread)
{
    struct setebench_thread_ *self = (struct setebench_thread_ *)thread;
    uint32_t i, events = self->process ? setebench_file_->events : 0;

    for (i = 0; i < events; i++)
        if (self->fd[i] >= 0)
            setebench_call3_(SYS_close, self->fd[i], 0, 0);
    self->process = 0;
    self->first = 0;
}

/* Find out whether events are to be counted, once: before main, or as a library with marks is loaded. */
__attribute__((constructor)) SETEBENCH_FUNCTION_ void setebench_find_out_(void)
{
    const char *path = getauxval(23 /* AT_SECURE */) ? NULL : getenv("SETEBENCH_REGIONS");
    struct setebench_head_ *head = path && !setebench_file_ ? setebench_map_(path) : NULL;

    if (head && pthread_key_create(&setebench_key_, setebench_close_counters_) == 0)
        setebench_file_ = head;
}

/* A thread's first mark, or that of a fork's child, whose descriptors count its parent. */
SETEBENCH_OUT_OF_LINE_ void setebench_meet_(struct setebench_thread_ *self, uint32_t process)
{
    uint32_t i;

    setebench_close_counters_(self);
    memset(self, 0, sizeof *self);
    self->process = process;
    self->thread = (uint32_t)setebench_call3_(SYS_gettid, 0, 0, 0);
    for (i = 0; i < setebench_file_->events; i++) {
        const unsigned char *attributes = setebench_file_->event[i].attributes;
        long fd = setebench_call_(SYS_perf_event_open, (long)attributes, 0, -1, -1, 8 /* close on exec */);
        long high = fd < 0 ? fd : setebench_call3_(SYS_fcntl, fd, 1030 /* F_DUPFD_CLOEXEC */, SETEBENCH_HIGH_);

        if (high >= 0)
            setebench_call3_(SYS_close, fd, 0, 0);
        self->fd[i] = (int32_t)(high >= 0 ? high : fd);
        self->error[i] = fd < 0 ? (int32_t)-fd : 0;
    }
    pthread_setspecific(setebench_key_, self);
}

/* The calling thread's state. */
SETEBENCH_FUNCTION_ struct setebench_thread_ *setebench_thread_here_(void)
{
    uint32_t process = (uint32_t)setebench_call3_(SYS_getpid, 0, 0, 0);

    if (setebench_self_.process != process)
        setebench_meet_(&setebench_self_, process);
    return &setebench_self_;
}

/* Counts of all events from their opening to now, in self->now. */
SETEBENCH_FUNCTION_ void setebench_read_all_(struct setebench_thread_ *self)
{
    uint64_t words[4] = {0, 0, 0, 0}; /* the number of events, times enabled and running, the count */
    uint32_t i;

    for (i = 0; i < setebench_file_->events; i++) {
        long got = self->fd[i] < 0 ? 0 : setebench_call3_(SYS_read, self->fd[i], (long)words, sizeof words);

        if (got == (long)sizeof words)
            memcpy(self->now[i], words + 1, sizeof self->now[i]);
        else if (self->fd[i] >= 0)
            self->error[i] = got < 0 ? (int32_t)-got : SETEBENCH_NOTHING_READ_;
    }
}

SETEBENCH_FUNCTION_ struct setebench_record_ *setebench_find_(const struct setebench_thread_ *self, const char *name)
{
    struct setebench_record_ *record;
    uint32_t next;

    for (next = self->first; next; next = record->next) {
        record = setebench_record_at_(next - 1);
        if (strncmp(record->name, name, SETEBENCH_NAME_ - 1) == 0)
            return record;
    }
    return NULL;
}

SETEBENCH_FUNCTION_ void setebench_enter_(struct setebench_thread_ *self, struct setebench_record_ *record)
{
    record->calls++;
    if (record->depth++)
        return;
    record->begun = setebench_now_();
    setebench_read_all_(self);
    memcpy(record->start, self->now, sizeof self->now);
}

/* self->now holds what was read as the end was reached. */
SETEBENCH_FUNCTION_ void setebench_leave_(struct setebench_thread_ *self, struct setebench_record_ *record)
{
    uint32_t i;

    if (--record->depth)
        return;
    record->nanoseconds += setebench_now_() - record->begun;
    memcpy(record->error, self->error, sizeof self->error);
    for (i = 0; i < 3 * setebench_file_->events; i++)
        record->sum[i / 3][i % 3] += self->now[i / 3][i % 3] - record->start[i / 3][i % 3];
}

SETEBENCH_OUT_OF_LINE_ struct setebench_record_ *setebench_new_(struct setebench_thread_ *self, const char *name)
{
    struct setebench_record_ *record;
    uint32_t index = __atomic_fetch_add(&setebench_file_->next, 1, __ATOMIC_RELAXED);

    if (index >= setebench_file_->records) {
        __atomic_fetch_sub(&setebench_file_->next, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&setebench_file_->lost, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    record = setebench_record_at_(index);
    strncpy(record->name, name, SETEBENCH_NAME_ - 1);
    record->process = self->process;
    record->thread = self->thread;
    record->next = self->first;
    self->first = index + 1;
    /* Once for nothing: the pages of this code, and of what it writes, are in place before anything is counted. */
    setebench_enter_(self, setebench_find_(self, name));
    setebench_read_all_(self);
    setebench_leave_(self, record);
    record->calls = record->nanoseconds = 0;
    memset(record->sum, 0, sizeof record->sum);
    return record;
}

SETEBENCH_OUT_OF_LINE_ void setebench_begin_(const char *name)
{
    struct setebench_thread_ *self = setebench_thread_here_();
    struct setebench_record_ *record = setebench_find_(self, name);

    if (!record)
        record = setebench_new_(self, name);
    if (record)
        setebench_enter_(self, record);
}

SETEBENCH_OUT_OF_LINE_ void setebench_end_(const char *name)
{
    struct setebench_thread_ *self = setebench_thread_here_();
    struct setebench_record_ *record;

    setebench_read_all_(self); /* first: what follows is not the region's */
    record = setebench_find_(self, name);
    if (record && record->depth)
        setebench_leave_(self, record);
    else
        __atomic_fetch_add(&setebench_file_->unmatched, 1, __ATOMIC_RELAXED);
}

/* From here to the end of the same name, on this thread, events are counted for region NAME. */
SETEBENCH_FUNCTION_ inline void setebench_region_begin(const char *name)
{
    if (__builtin_expect(setebench_file_ != NULL, 0))
        setebench_begin_(name);
}

/* Ends what the same thread began last under this name. */
SETEBENCH_FUNCTION_ inline void setebench_region_end(const char *name)
{
    if (__builtin_expect(setebench_file_ != NULL, 0))
        setebench_end_(name);
}

#else

static inline void setebench_region_begin(const char *name) { (void)name; }
static inline void setebench_region_end(const char *name) { (void)name; }

#endif
#endif
