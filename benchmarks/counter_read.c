/* Nanoseconds of read(2) of a group of events, nothing else around it: what reading through setebench is held against. */

#include <stdint.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* `count` events opened with times and group; -1 where a read failed. */
int64_t bare_reads_ns(int fd, int count, int64_t calls)
{
    uint64_t words[3 + 32];
    const size_t size = (3 + (size_t)count) * 8;
    int64_t failed = 0, begin = now_ns();
    for (int64_t i = 0; i < calls; i++)
        failed |= read(fd, words, size) != (ssize_t)size;
    return failed ? -1 : now_ns() - begin;
}
