// The program handles signals that a terminal, a batch system or the program itself sends to all of its processes. CPU devices work on.
#include "check.h"
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void on_signal(int number)
{
    (void)number;
    handled++;
}

static int run(int *a, int n)
{
    int sum = 0;
#pragma acc parallel loop copy(a[0:n]) reduction(+:sum)
    for (int i = 0; i < n; i++) {
        a[i] += 1;
        sum += a[i];
    }
    return sum;
}

int main(void)
{
    enum { N = 100 };
    static int a[N];
    const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    const int count = sizeof numbers / sizeof *numbers;
    CHECK_EQ(setpgid(0, 0), 0);
    CHECK_EQ(run(a, N), N);
    struct sigaction action = {.sa_handler = on_signal};
    for (int i = 0; i < count; i++)
        CHECK_EQ(sigaction(numbers[i], &action, NULL), 0);
    for (int i = 0; i < count; i++) {
        CHECK_EQ(kill(0, numbers[i]), 0);
        CHECK_EQ(run(a, N), (i + 2) * N);
    }
    CHECK_EQ(handled, count);
    return pass();
}
