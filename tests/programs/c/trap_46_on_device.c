// acc_on_device is folded by the compiler at -O2 and a call at -O0: on the host both say host.
// BUILD core
#include "check.h"

int main(int argc, char **argv)
{
    (void)argv;
    CHECK_EQ(acc_on_device(acc_device_host), 1);
    CHECK_EQ(acc_on_device(acc_device_not_host), 0);
    CHECK_EQ(acc_on_device(acc_device_nvidia), 0);
    int on_host = -1, no = argc > 50;
#pragma acc parallel copyout(on_host) if (no)
    on_host = acc_on_device(acc_device_host);
    CHECK_EQ(on_host, 1);
    acc_device_t type = acc_get_device_type();
#pragma acc parallel if (no)
    { }
    CHECK_EQ(acc_get_device_type(), type);
    return pass();
}
