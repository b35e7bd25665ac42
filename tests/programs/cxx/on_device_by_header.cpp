// With Accord's header acc_on_device is asked at run time, also in optimized regions on CPU devices.
// BUILD headers
#include "check.h"

static int ask(acc_device_t kind)
{
    return acc_on_device(kind);
}

int main(void)
{
    int (*by_address)(int) = acc_on_device;
    CHECK_EQ(ask(acc_device_host), 1);
    CHECK_EQ(by_address(acc_device_host), 1);
    CHECK_EQ(acc_on_device(acc_device_not_host), 0);
    int host = -1, other = -1;
#pragma acc parallel copyout(host, other)
    {
        host = acc_on_device(acc_device_host);
        other = acc_on_device(acc_device_not_host);
    }
    CHECK_EQ(host, WANT(0, 1));
    CHECK_EQ(other, WANT(1, 0));
    return pass();
}
