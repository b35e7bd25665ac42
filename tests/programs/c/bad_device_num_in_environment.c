// ACC_DEVICE_NUM names a device that is not there.
// RUN first-device
// RUN env=ACC_DEVICE_NUM=4711
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/ACC_DEVICE_NUM/
#include "check.h"

int main(void)
{
    int x = 0;
#pragma acc parallel copy(x)
    x = 1;
    printf("FAIL: device 4711 ran a region\n");
    return 0;
}
