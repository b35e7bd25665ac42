// A deviceptr clause with an address of another device (2.7.4).
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/parallel.*acc_error_invalid_argument/
// EXPECT stderr=/is memory of dev\d \(/
#include "two_devices.h"

int main(void)
{
    two_devices();
#pragma acc parallel deviceptr(other)
    other[0] = 1;
    return taken();
}
