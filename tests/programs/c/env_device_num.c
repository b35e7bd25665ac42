// ACC_DEVICE_NUM chooses the device to begin with (4.2).
// RUN first-device
// RUN env=ACC_DEVICE_NUM=1
// EXPECT device-memory
#include "check.h"

int main(void)
{
    acc_init(acc_device_default);
    CHECK_EQ(acc_get_device_num(device_type()), 1);
    int x = 0;
#pragma acc parallel copy(x)
    x = 1;
    CHECK_EQ(x, 1);
    return pass();
}
