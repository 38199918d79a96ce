/* The page that the kernel keeps about an open event, and reading a counter by what it says.

   rdpmc faults (#GP) where the kernel hasn't allowed it, so it is executed between two equal readings of the page's
   sequence number only, behind the capability bit and a counter index. Protocol: linux/perf_event.h,
   struct perf_event_mmap_page. */

#ifndef SETEBENCH_PERF_PAGE_H
#define SETEBENCH_PERF_PAGE_H

#include <linux/perf_event.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define setebench_barrier() __asm__ volatile("" ::: "memory")

/* Numbers that stand for hardware counters in tests; NULL: the CPU's own. */
typedef const uint64_t *setebench_counters;

static inline uint64_t setebench_rdpmc(uint32_t counter)
{
    uint32_t low, high;
    __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(counter));
    return low | (uint64_t)high << 32;
}

static inline int64_t setebench_sign_extended(uint64_t value, int width)
{
    return width <= 0 || width >= 64 ? (int64_t)value : (int64_t)(value << (64 - width)) >> (64 - width);
}

/* The kernel's answer about a user-space counter read: with it and a counter index, 1 and the count; else 0. */
static inline int setebench_page_count(const volatile struct perf_event_mmap_page *page, setebench_counters counters,
                                       int64_t *count)
{
    uint32_t sequence, index;
    int readable;
    int64_t value;
    do {
        sequence = page->lock;
        setebench_barrier();
        index = page->index;
        value = page->offset;
        readable = index != 0 && page->cap_bit0_is_deprecated && page->cap_user_rdpmc;
        if (readable) {
            uint64_t raw = counters ? counters[index - 1] : setebench_rdpmc(index - 1);
            value += setebench_sign_extended(raw, page->pmc_width);
        }
        setebench_barrier();
    } while (page->lock != sequence);
    *count = value;
    return readable;
}

static inline uint64_t setebench_data_head(const volatile struct perf_event_mmap_page *page)
{
    return __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
}

static inline void setebench_data_tail(volatile struct perf_event_mmap_page *page, uint64_t tail)
{
    __atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
}

/* read(2) without the C library's wrapper: bytes read, or minus errno. Just behind a system call most returns are
   mispredicted, so each one left out shows in a reading that takes hardly a microsecond. */
static inline long setebench_read(int fd, void *buffer, size_t size)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(0L), "D"((long)fd), "S"(buffer), "d"(size) : "rcx", "r11", "memory");
    return result;
}

/* Pages of events are not inherited by a forked child: touching one there would be a fault. Children are counted. */
static uint64_t setebench_generation;

static void setebench_in_child(void)
{
    setebench_generation++;
}

static inline int setebench_watch_forks(void)
{
    return pthread_atfork(NULL, NULL, setebench_in_child);
}

#endif
