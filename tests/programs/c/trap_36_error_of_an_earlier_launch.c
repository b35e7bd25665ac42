// A crash in an async region comes out at a later call and still names the region.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_error_execution/
// EXPECT stderr=/guilty/
#include "check.h"

static void guilty(int *p)
{
#pragma acc parallel deviceptr(p) async(1)
    *p = 1;
}

static void innocent(int *a)
{
#pragma acc parallel loop copy(a[0:10]) async(1)
    for (int i = 0; i < 10; i++)
        a[i] = i;
}

int main(void)
{
    int a[10] = {0};
    guilty((int *)16);
    innocent(a);
#pragma acc wait
    printf("FAIL: the wait came back\n");
    return 0;
}
