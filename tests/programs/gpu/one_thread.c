// Regions that GCC compiles for one thread, which the time report marks, and others, which it doesn't.
#include "check.h"

static float a[1000], b[1000];

static void alone(int n)
{
#pragma acc kernels loop independent present(a, b)
    for (int i = 1; i < n; i++)
        a[i] = a[i - 1] + b[i];
}

static void together(int n)
{
#pragma acc parallel loop present(a, b)
    for (int i = 0; i < n; i++)
        a[i] = b[i];
}

int main(void)
{
#pragma acc data create(a, b)
    {
        alone(1000);
        together(1000);
        alone(1000);
    }
    return pass();
}
