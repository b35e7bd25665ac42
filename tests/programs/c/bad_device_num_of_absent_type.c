// The number of the current device of a type that is not there is none (3.2.5).
// RUN first-device
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_get_device_num.*acc_device_radeon/
// EXPECT stderr=/acc_error_device_type_unavailable/
#include "check.h"

int main(void)
{
    CHECK_EQ(acc_get_device_num(acc_device_host), 0);
    CHECK(acc_get_device_num(acc_get_device_type()) >= 0);
    acc_get_device_num(acc_device_radeon);
    printf("FAIL: there is a number\n");
    return 0;
}
