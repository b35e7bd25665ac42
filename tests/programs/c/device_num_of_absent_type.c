// The number of the current device of a type that is not there is -1, and the program goes on (3.2.5).
// RUN first-device
// EXPECT device-memory
#include "check.h"

int main(void)
{
    CHECK_EQ(acc_get_device_num(acc_device_radeon), -1);
    CHECK_EQ(acc_get_device_num(acc_device_host), 0);
    CHECK(acc_get_device_num(acc_get_device_type()) >= 0);
    CHECK_EQ(acc_get_device_num(acc_device_radeon), -1);
    int x = 1;
#pragma acc parallel copy(x)
    x = 2;
    CHECK_EQ(x, 2);
    return pass();
}
