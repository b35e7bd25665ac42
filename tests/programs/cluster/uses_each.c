// Works on each device there is, and says how many there are.
#include "check.h"

int main(void)
{
    enum { N = 1000 };
    static int a[N];
    acc_device_t type = device_type();
    int n = device_count();
    for (int d = 0; d < n; d++) {
        acc_set_device_num(d, type);
#pragma acc parallel loop copyout(a)
        for (int i = 0; i < N; i++)
            a[i] = i + d;
        for (int i = 0; i < N; i++)
            CHECK_EQ(a[i], i + d);
    }
    printf("devices=%d\n", n);
    return pass();
}
