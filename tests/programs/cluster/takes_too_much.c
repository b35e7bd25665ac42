/* A region on the last device takes more than its session may have: "memory", which it touches until it is killed; "processes", of which it counts those
   that it could start, and ends them; "cores", of which it prints how many it may use though it asks for all. */
#define _GNU_SOURCE
#include <openacc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* More than any limit of the tests. */
enum { BYTES = 1 << 30, PROCESSES = 4096 };

static int memory(void)
{
    /* Volatile, lest GCC leave out stores that nothing reads. */
    volatile char *bytes = malloc(BYTES);
    if (!bytes)
        return 0;
    for (long at = 0; at < BYTES; at += 4096)
        bytes[at] = 1;
    free((void *)bytes);
    return 1;
}

static int processes(void)
{
    static int started[PROCESSES];
    int count = 0;
    while (count < PROCESSES) {
        int pid = fork();
        if (pid == 0) {
            signal(SIGTERM, SIG_IGN);
            for (;;)
                pause();
        }
        if (pid < 0)
            break;
        started[count++] = pid;
    }
    for (int each = 0; each < count; each++) {
        kill(started[each], SIGKILL);
        waitpid(started[each], 0, 0);
    }
    return count;
}

static int cores(void)
{
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
    sched_getaffinity(0, sizeof all, &all);
    return CPU_COUNT(&all);
}

int main(int argc, char **argv)
{
    int what = argc > 1 ? argv[1][0] : 0, got = 0;

    acc_set_device_num(acc_get_num_devices(acc_device_default) - 1, acc_device_default);
#pragma acc parallel num_gangs(1) copyin(what) copy(got)
    got = what == 'm' ? memory() : what == 'p' ? processes() : cores();
    printf("got %d\n", got);
    return 0;
}
