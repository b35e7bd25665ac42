// A negative device number.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_error_(device_unavailable|invalid_argument)/
#include "check.h"

int main(void)
{
    acc_set_device_num(-3, device_type());
    int x = 0;
#pragma acc parallel copy(x)
    x = 1;
    printf("FAIL: device -3 ran a region\n");
    return 0;
}
