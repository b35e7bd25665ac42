// ACC_DEVICE_NUM= is as good as none (4.2).
// RUN env=ACC_DEVICE_NUM=
// RUN env=ACC_DEVICE_TYPE=
// RUN first-device
#include "check.h"

int main(void)
{
    CHECK_EQ(acc_get_device_num(device_type()), 0);
    int x = 1;
#pragma acc parallel copy(x)
    x++;
    CHECK_EQ(x, 2);
    return pass();
}
