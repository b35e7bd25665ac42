// ACCORD_EMULATE=nvidia: CPU devices answer to the name that programs use.
// RUN env=ACCORD_EMULATE=nvidia
// EXPECT device-memory
#include "check.h"

int main(void)
{
    int n = acc_get_num_devices(acc_device_nvidia), a[10];
    CHECK(n >= 2);
    CHECK_EQ(acc_get_device_type(), acc_device_nvidia);
    for (int d = 0; d < n; d++) {
        acc_set_device_num(d, acc_device_nvidia);
#pragma acc parallel loop copyout(a)
        for (int i = 0; i < 10; i++)
            a[i] = i + d;
        CHECK_EQ(a[9], 9 + d);
    }
    return pass();
}
