// A program that ignores SIGCHLD or handles it gets no signals on Accord's account.
#include "check.h"
#include <signal.h>

static volatile sig_atomic_t children;

static void on_child(int number)
{
    (void)number;
    children++;
}

static int doubled(int x)
{
#pragma acc parallel copy(x)
    x *= 2;
    return x;
}

int main(void)
{
    signal(SIGCHLD, on_child);
    CHECK_EQ(doubled(1), 2);
    if (separate())
        acc_shutdown(device_type());
    CHECK_EQ(doubled(2), 4);
    CHECK_EQ(children, 0);
    signal(SIGCHLD, SIG_IGN);
    if (separate())
        acc_shutdown(device_type());
    CHECK_EQ(doubled(3), 6);
    return pass();
}
