// ACC_DEVICE_TYPE=HOST (in any case of letters): regions run in the program itself (4.1).
// RUN first-device
// RUN env=ACC_DEVICE_TYPE=HOST
// RUN shared
#include "check.h"

int main(void)
{
    CHECK_EQ(acc_get_device_type(), acc_device_host);
    int a[4] = {0}, *p = a;
#pragma acc enter data copyin(a)
    a[0] = 5;
#pragma acc parallel loop present(a)
    for (int i = 0; i < 4; i++)
        a[i] += 1;
    CHECK_EQ(a[0], 6);
    CHECK_EQ(a[1], 1);
    CHECK(acc_deviceptr(p) == p);
    return pass();
}
