// A device number out of range.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_set_device_num/
// EXPECT stderr=/acc_error_device_unavailable/
#include "check.h"

int main(void)
{
    acc_set_device_num(4711, device_type());
    int x = 0;
#pragma acc parallel copy(x)
    x = 1;
    printf("FAIL: device 4711 ran a region\n");
    return 0;
}
