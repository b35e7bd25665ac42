// A device type without devices.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_error_device_type_unavailable/
#include "check.h"

int main(void)
{
    acc_set_device_type(acc_device_radeon);
    int x = 0;
#pragma acc parallel copy(x)
    x = 1;
    printf("FAIL: a radeon ran a region\n");
    return 0;
}
