/* sandbox WHAT... -- COMMAND: runs a command that the kernel refuses some system calls (EPERM). WHAT is a call's number,
   or `code`: memory that is writable and executable at once, or made executable after it was mapped. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct sock_filter program[128];
static unsigned short length;

static void add(unsigned short code, unsigned value, unsigned char yes, unsigned char no) {
    program[length++] = (struct sock_filter){code, yes, no, value};
}

static void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0); }

static void refuse(unsigned call) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
}

/* refuse a call whose third argument has all of these bits */
static void refuse_rights(unsigned call, unsigned rights) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5);
    load(offsetof(struct seccomp_data, args[2]));
    add(BPF_ALU | BPF_AND | BPF_K, rights, 0, 0);
    add(BPF_JMP | BPF_JEQ | BPF_K, rights, 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM, 0, 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

int main(int count, char **words) {
    int word = 1;
    load(offsetof(struct seccomp_data, nr));
    for (; word < count && strcmp(words[word], "--"); word++) {
        if (strcmp(words[word], "code")) {
            refuse((unsigned)atoi(words[word]));
            continue;
        }
        refuse_rights(SYS_mmap, PROT_WRITE | PROT_EXEC);
        refuse_rights(SYS_mprotect, PROT_EXEC);
        refuse_rights(SYS_pkey_mprotect, PROT_EXEC);
    }
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    struct sock_fprog filter = {length, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
        perror("seccomp");
        return 125;
    }
    execvp(words[word + 1], words + word + 1);
    perror(words[word + 1]);
    return 127;
}
