// Queue 1 of one device is not queue 1 of another (2.16): each is waited for and tested on its device.
#include "check.h"

int main(void)
{
    enum { N = 2000, DEVICES = 16 };
    static int a[DEVICES][N];
    acc_device_t type = device_type();
    int n = device_count() < DEVICES ? device_count() : DEVICES;
    for (int d = 0; d < n; d++) {
        int *p = a[d];
        acc_set_device_num(d, type);
#pragma acc enter data copyin(p[0:N]) async(1)
        for (int k = 0; k < 20; k++) {
#pragma acc parallel loop present(p[0:N]) async(1)
            for (int i = 0; i < N; i++)
                p[i] += d + 1;
        }
#pragma acc exit data copyout(p[0:N]) async(1)
    }
    for (int d = n - 1; d >= 0; d--) {
        acc_set_device_num(d, type);
        acc_wait(1);
        CHECK_EQ(acc_async_test(1), 1);
        CHECK_ALL(a[d], N, 20 * (d + 1));
    }
    return pass();
}
