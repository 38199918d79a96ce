/* To be preloaded: a system without something. -DHUGE_PAGES: a kernel without transparent huge pages; -DPINNING_OTHERS: a
   sandbox in which a thread may pin itself alone; -DPINNING: nobody may. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef HUGE_PAGES
int madvise(void *address, unsigned long size, int advice) {
    if (advice == 14 || advice == 15) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, address, size, advice);
}
#else
int sched_setaffinity(int thread, unsigned long size, const void *mask) {
#ifdef PINNING_OTHERS
    if (!thread)
        return syscall(SYS_sched_setaffinity, thread, size, mask) < 0 ? -1 : 0;
#endif
    (void)thread, (void)size, (void)mask;
    errno = EPERM;
    return -1;
}
#endif
