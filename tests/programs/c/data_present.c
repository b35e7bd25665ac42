// `present` uses the copy made outside; nothing is copied at the inner region (2.7.5).
#include "check.h"

int main(void)
{
    int a[32];
    for (int i = 0; i < 32; i++)
        a[i] = i;
#pragma acc data copy(a)
    {
        for (int i = 0; i < 32; i++)
            a[i] = -1;
#pragma acc parallel loop present(a)
        for (int i = 0; i < 32; i++)
            a[i] += 100;
        CHECK_ALL(a, 32, WANT(-1, 99));
    }
    for (int i = 0; i < 32; i++)
        CHECK_EQ(a[i], WANT(i + 100, 99));
    return pass();
}
