/* A region that tries to reach the agent, whose number and log are its arguments, and its executor, which is its process's parent: by signals,
   by ptrace, in memory, descriptors and environment; and to type into a terminal. Beside them a process of the region's own, where all of that works. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <openacc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char word[8] = "before";

static int opens(int pid, const char *what, int how)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
    int fd = open(path, how);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* What works against a process, by name. */
static void attack(int pid, int signals, char *reached)
{
    char own[8] = "after";
    struct iovec from = {own, sizeof own}, to = {word, sizeof word};
    int handle = syscall(SYS_pidfd_open, pid, 0);

    reached[0] = 0;
    if (signals && kill(pid, 0) == 0)
        strcat(reached, " kill");
    if (opens(pid, "mem", O_RDWR))
        strcat(reached, " mem");
    if (opens(pid, "environ", O_RDONLY))
        strcat(reached, " environ");
    if (opens(pid, "maps", O_RDONLY))
        strcat(reached, " maps");
    for (int fd = 0; fd < 64; fd++) {
        char name[16];
        snprintf(name, sizeof name, "fd/%d", fd);
        if (opens(pid, name, O_RDONLY | O_NONBLOCK)) {
            strcat(reached, " fd");
            break;
        }
    }
    for (int fd = 0; fd < 64; fd++) {
        int got = syscall(438 /* pidfd_getfd */, handle, fd, 0);
        if (got >= 0) {
            close(got);
            strcat(reached, " pidfd_getfd");
            break;
        }
    }
    if (process_vm_writev(pid, &from, 1, &to, 1, 0) > 0)
        strcat(reached, " process_vm_writev");
    if (ptrace(PTRACE_ATTACH, pid, 0, 0) == 0) {
        waitpid(pid, 0, __WALL);
        ptrace(PTRACE_DETACH, pid, 0, 0);
        strcat(reached, " ptrace");
    }
    close(handle);
}

int main(int argc, char **argv)
{
    static char agent_reached[256], executor_reached[256], own_reached[256];
    int agent = argc > 1 ? atoi(argv[1]) : 0, has_log = 0, apart = 0, dumpable = -1, open_fds = 0, typed = 0;
    unsigned long device = 0, node = 0;
    struct stat log;

    if (argc > 2 && stat(argv[2], &log) == 0)
        device = log.st_dev, node = log.st_ino;
    acc_set_device_num(acc_get_num_devices(acc_device_default) - 1, acc_device_default);
#pragma acc parallel num_gangs(1) copyin(agent, device, node) copyout(agent_reached, executor_reached, own_reached) \
    copy(has_log, apart, dumpable, open_fds, typed)
    {
        int terminal = open("/dev/tty", O_RDWR), executor = getppid(), child = fork();
        if (child == 0)
            for (;;)
                pause();
        attack(agent, 1, agent_reached);
        attack(executor, 0, executor_reached);
        attack(child, 1, own_reached);
        kill(child, SIGKILL);
        waitpid(child, 0, 0);
        for (int fd = 0; fd < 1024; fd++) {
            struct stat status;
            if (fstat(fd, &status) != 0)
                continue;
            open_fds++;
            typed += ioctl(fd, TIOCSTI, "x") == 0;
            has_log |= status.st_dev == device && status.st_ino == node;
        }
        typed += terminal >= 0;
        apart = getsid(0) != getsid(agent) && getsid(executor) != getsid(agent);
        dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    }
    printf("agent:%s\nexecutor:%s\nown:%s\nlog=%d apart=%d dumpable=%d terminal=%d\n", agent_reached, executor_reached, own_reached, has_log,
           apart, dumpable, typed);
    return open_fds > 0 ? 0 : 1;
}
