// A program with a SIGSEGV handler of its own keeps it.
#include "check.h"
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf back;

static void on_fault(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

int main(void)
{
    int x = 1, caught = 0;
    struct sigaction action = {.sa_handler = on_fault}, now;
    CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
#pragma acc parallel copy(x)
    x = 2;
    CHECK_EQ(x, 2);
    CHECK_EQ(sigaction(SIGSEGV, NULL, &now), 0);
    CHECK(now.sa_handler == on_fault);
    if (sigsetjmp(back, 1) == 0)
        *(volatile int *)16 = 1;
    else
        caught = 1;
    CHECK_EQ(caught, 1);
    return pass();
}
