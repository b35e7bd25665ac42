// Regions over the same data nest; an inner one copies nothing in or out: references are counted (2.6.7).
// BUILD core
#include "check.h"

static void add(int *p, int n, int k)
{
#pragma acc data copy(p[0:n])
    {
#pragma acc parallel loop present(p[0:n])
        for (int i = 0; i < n; i++)
            p[i] += k;
    }
}

int main(void)
{
    int a[40] = {0};
#pragma acc data copy(a)
    {
        for (int round = 0; round < 5; round++)
            add(a, 40, 1);
        CHECK_ALL(a, 40, WANT(0, 5));
    }
    CHECK_ALL(a, 40, 5);
    add(a, 40, 10);
    CHECK_ALL(a, 40, 15);
    return pass();
}
