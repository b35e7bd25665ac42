// A timer interrupts every system call, without SA_RESTART: nothing may mistake that for an error.
#include "check.h"
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;

static void on_tick(int number)
{
    (void)number;
    ticks++;
}

int main(void)
{
    enum { N = 200000 };
    static double a[N];
    struct sigaction action = {.sa_handler = on_tick};
    struct itimerval timer = {{0, 500}, {0, 500}}, off = {{0, 0}, {0, 0}};
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
    for (int round = 0; round < 40 || ticks < 20; round++) {
        for (int i = 0; i < N; i++)
            a[i] = i;
#pragma acc data copy(a)
        {
#pragma acc parallel loop present(a) async(1)
            for (int i = 0; i < N; i++)
                a[i] += 1;
#pragma acc update self(a) async(1)
#pragma acc wait(1)
        }
        CHECK_EQ(a[N - 1], N);
    }
    CHECK_EQ(setitimer(ITIMER_REAL, &off, NULL), 0);
    return pass();
}
