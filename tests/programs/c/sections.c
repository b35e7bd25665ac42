// Array sections with constant and run-time bounds; only the section is copied.
#include "check.h"

static void middle(int *a, int first, int count)
{
#pragma acc parallel loop copy(a[first:count])
    for (int i = first; i < first + count; i++)
        a[i] += 1000;
}

int main(void)
{
    int a[100], b[100];
    for (int i = 0; i < 100; i++)
        a[i] = i, b[i] = 0;
#pragma acc parallel loop copyin(a[10:50]) copyout(b[20:30])
    for (int i = 20; i < 50; i++)
        b[i] = a[i];
    for (int i = 0; i < 100; i++)
        CHECK_EQ(b[i], i >= 20 && i < 50 ? i : 0);
    middle(a, 30, 20);
    middle(a, 90, 10);
    middle(a, 5, 0);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(a[i], (i >= 30 && i < 50) || i >= 90 ? i + 1000 : i);
    return pass();
}
