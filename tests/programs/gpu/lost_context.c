// The last GPU loses its context by a wild pointer, without a wait for it: after a shutdown it works again, in another
// process. With the driver that tests bring along, cluster_kernels.c has what runs in the regions' place.
#include "check.h"

enum { N = 1000 };
static double a[N];

static void add(double *restrict a, int n, double s)
{
#pragma acc parallel loop present(a[0:n]) async(1)
    for (int i = 0; i < n; i++)
        a[i] += s;
}

static void crash(int *wild)
{
#pragma acc parallel deviceptr(wild) async(1)
    *wild = 1;
}

static void works(double s)
{
    for (int i = 0; i < N; i++)
        a[i] = i;
#pragma acc enter data copyin(a)
    add(a, N, s);
#pragma acc wait(1)
#pragma acc exit data copyout(a)
    for (int i = 0; i < N; i++)
        CHECK_EQ(a[i], i + s);
}

int main(void)
{
    int last = acc_get_num_devices(acc_device_nvidia) - 1;
    acc_set_device_num(last, acc_device_nvidia);
    works(0.25);
    for (int round = 0; round < 3; round++) {
        crash((int *)16);
        acc_shutdown(acc_device_nvidia);
        acc_set_device_num(last, acc_device_nvidia);
        works(0.5);
    }
    return pass();
}
