/* A region starts a process that stays: of a session of its own, without a parent, deaf to what asks it to end, and with the device's memory mapped.
   Its number is printed. "kill", "stop": another region kills or stops its executor when standard input ends. Else the program stays. */
#include <openacc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *does = argc > 1 ? argv[1] : "";
    int signal_sent = strcmp(does, "kill") == 0 ? SIGKILL : strcmp(does, "stop") == 0 ? SIGSTOP : 0, pid = 0, n = 1 << 20;
    static char a[1 << 20];

    acc_set_device_num(acc_get_num_devices(acc_device_default) - 1, acc_device_default);
#pragma acc enter data copyin(a)
#pragma acc parallel num_gangs(1) present(a) copy(pid) copyin(n)
    {
        int ends[2], got = pipe(ends);
        if (fork() == 0) {
            setsid();
            if (fork() == 0) {
                signal(SIGTERM, SIG_IGN);
                signal(SIGHUP, SIG_IGN);
                a[n - 1] = 1;
                pid = getpid();
                got = write(ends[1], &pid, sizeof pid);
                for (;;)
                    pause();
            }
            _exit(got);
        }
        got = read(ends[0], &pid, sizeof pid);
    }
    printf("stays %d\n", pid);
    fflush(stdout);
    if (signal_sent) {
        while (getchar() != EOF) {
        }
#pragma acc parallel num_gangs(1) copyin(signal_sent) async
        kill(getppid(), signal_sent);
    }
    for (;;)
        pause();
}
