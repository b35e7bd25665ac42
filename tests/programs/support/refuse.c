/* refuse ERROR CALL PROGRAM ...: runs a program for which a system call fails with an error, as in a container whose profile forbids it. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned number;
} calls[] = {{"memfd_create", SYS_memfd_create}, {"socketpair", SYS_socketpair}, {"pidfd_open", SYS_pidfd_open}};

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    unsigned error = strcmp(argv[1], "ENOSYS") == 0 ? ENOSYS : EPERM;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(argv[2], calls[i].name) != 0)
            continue;
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
            perror("refuse: no filters here");
            return 77;
        }
        execvp(argv[3], argv + 3);
        perror(argv[3]);
        return 2;
    }
    return 2;
}
