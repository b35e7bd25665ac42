// ACC_DEVICE_TYPE names a type that is not there.
// RUN env=ACC_DEVICE_TYPE=radeon
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/ACC_DEVICE_TYPE/
#include "check.h"

int main(void)
{
    int x = 0;
#pragma acc parallel copy(x)
    x = 1;
    printf("FAIL: a radeon ran a region\n");
    return 0;
}
