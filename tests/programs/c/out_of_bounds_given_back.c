// Memory that was given back is no data any more: a region that still reads it is stopped, also far ahead of its data.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/ended with SIGSEGV/
// EXPECT stderr=/bytes ahead of the nearest, the 80000000 bytes of right \(/
// RUN env=ACCORD_CPU_MEMORY=256M
// BUILD offload=no
#include "check.h"

static double sum(double *right, long n, long first)
{
    double s = 0;
#pragma acc parallel loop present(right[0:n]) reduction(+:s)
    for (long i = first; i < first + 10; i++)
        s += right[i];
    return s;
}

int main(void)
{
    long n = 10000000;
    double *left = calloc(n, sizeof *left), *right = calloc(n, sizeof *right);
#pragma acc enter data copyin(left[0:n])
#pragma acc enter data copyin(right[0:n])
    char *device_left = acc_deviceptr(left), *device_right = acc_deviceptr(right);
    long distance = (device_left - device_right) / (long)sizeof *left;
    CHECK(distance < 0);
    CHECK_EQ(sum(right, n, distance + n / 2), 0);
#pragma acc exit data delete(left[0:n])
#pragma acc wait
    printf("FAIL: the region came back %g\n", sum(right, n, distance + n / 2));
    return 0;
}
