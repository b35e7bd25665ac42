// A data clause with a device address where the program's memory is meant.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/parallel.*acc_error_invalid_argument/
// EXPECT stderr=/is memory of dev\d \(/
#include "two_devices.h"

int main(void)
{
    two_devices();
#pragma acc parallel copy(own[0:1000])
    own[0] = 1;
    return taken();
}
