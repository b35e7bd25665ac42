// acc_free of an address of another device (3.2.17).
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_free.*acc_error_invalid_argument/
// EXPECT stderr=/is memory of dev\d \(/
#include "two_devices.h"

int main(void)
{
    two_devices();
    acc_free(other);
    return taken();
}
