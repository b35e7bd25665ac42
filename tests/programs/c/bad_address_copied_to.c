// acc_memcpy_to_device with an address of another device (3.2.26).
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_memcpy_to_device.*acc_error_invalid_argument/
// EXPECT stderr=/is memory of dev\d \(/
#include "two_devices.h"

int main(void)
{
    two_devices();
    acc_memcpy_to_device(other, host, 1000);
    return taken();
}
