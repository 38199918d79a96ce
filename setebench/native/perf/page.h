/* Reading a counter by what the page that the kernel keeps about its event says.

   rdpmc faults (#GP) where the kernel hasn't allowed it, so it is executed between two equal readings of the page's
   sequence number only, behind the capability bit and a counter index. Protocol: linux/perf_event.h,
   struct perf_event_mmap_page. */

#ifndef SETEBENCH_PERF_PAGE_H
#define SETEBENCH_PERF_PAGE_H

#include <linux/perf_event.h>
#include <stdint.h>

#define setebench_barrier() __asm__ volatile("" ::: "memory")

/* 1 and the count where the kernel lets this thread read the counter now, else 0. */
static inline int setebench_page_count(const void *memory, int64_t *count)
{
    const volatile struct perf_event_mmap_page *page = memory;
    uint32_t sequence, index, low, high;
    int readable;
    do {
        sequence = page->lock;
        setebench_barrier();
        index = page->index;
        *count = page->offset;
        readable = index != 0 && page->cap_bit0_is_deprecated && page->cap_user_rdpmc;
        if (readable) {
            int unused = 64 - page->pmc_width;
            __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index - 1));
            *count += (int64_t)((low | (uint64_t)high << 32) << unused) >> unused;
        }
        setebench_barrier();
    } while (page->lock != sequence);
    return readable;
}

#endif
