/* What tests count: pages touched for the first time, in regions and outside, by threads and processes. Each argument is
 * one thing to do; `touch=N` touches N fresh pages, each of which is one page fault. */
#include <setebench.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void touch(int pages)
{
    char *memory = mmap(NULL, pages * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    madvise(memory, pages * 4096L, MADV_NOHUGEPAGE);
    for (int i = 0; i < pages; i++)
        memory[i * 4096L] = 1;
    munmap(memory, pages * 4096L);
}

static void marked(const char *name, int pages)
{
    setebench_region_begin(name);
    touch(pages);
    setebench_region_end(name);
}

static void nested(void)
{
    setebench_region_begin("outer");
    touch(50);
    marked("inner", 70);
    touch(30);
    setebench_region_end("outer");
}

static void again(int levels)
{
    setebench_region_begin("again");
    touch(10);
    if (levels > 1)
        again(levels - 1);
    setebench_region_end("again");
}

static void overlapping(void)
{
    setebench_region_begin("first");
    touch(10);
    setebench_region_begin("second");
    touch(20);
    setebench_region_end("first");
    touch(40);
    setebench_region_end("second");
}

static void *marked_thread(void *pages)
{
    touch(1);
    marked("thread", *(int *)pages);
    return NULL;
}

static void in_threads(void)
{
    static int pages[3] = {40, 80, 120};
    pthread_t thread[3];

    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, marked_thread, &pages[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
}

static void in_processes(void)
{
    marked("process", 30);
    if (fork() == 0) {
        touch(1); /* code that the parent has in its page tables is not in those of its child */
        marked("process", 50);
        _exit(0);
    }
    wait(NULL);
}

static void *touching_thread(void *pages)
{
    touch(*(int *)pages);
    return NULL;
}

/* Three processes and three threads, 500 pages each. */
static void family(void)
{
    static int pages = 500;
    pthread_t thread[3];

    for (int i = 0; i < 3; i++) {
        pthread_create(&thread[i], NULL, touching_thread, &pages);
        if (fork() == 0) {
            touch(pages);
            _exit(0);
        }
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        wait(NULL);
    }
}

/* A region that is off its CPU again and again, and else busy. */
static void drowsy(void)
{
    static volatile long sum;

    setebench_region_begin("drowsy");
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        for (long k = 0; k < 1000000; k++)
            sum += k;
    }
    setebench_region_end("drowsy");
}

static void closed(void)
{
    marked("closed", 1);
    for (int fd = 3; fd < 2048; fd++)
        close(fd);
    marked("closed", 1);
}

static void act(const char *what)
{
    if (strncmp(what, "touch=", 6) == 0)
        touch(atoi(what + 6));
    else if (strcmp(what, "regions") == 0) {
        marked("A", 200);
        marked("B", 100);
    } else if (strcmp(what, "nested") == 0)
        nested();
    else if (strcmp(what, "again") == 0)
        again(3);
    else if (strcmp(what, "overlapping") == 0)
        overlapping();
    else if (strcmp(what, "threads") == 0)
        in_threads();
    else if (strcmp(what, "processes") == 0)
        in_processes();
    else if (strcmp(what, "family") == 0)
        family();
    else if (strcmp(what, "drowsy") == 0)
        drowsy();
    else if (strcmp(what, "closed") == 0)
        closed();
    else if (strcmp(what, "unended") == 0)
        setebench_region_begin("unended");
    else if (strcmp(what, "unmatched") == 0)
        setebench_region_end("never begun");
    else
        exit(2);
}

int main(int count, char **arguments)
{
    for (int i = 1; i < count; i++)
        act(arguments[i]);
    return 3;
}
