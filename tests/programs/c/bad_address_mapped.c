// acc_map_data of memory of another device (3.2.21).
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_map_data.*acc_error_invalid_argument/
// EXPECT stderr=/is memory of dev\d \(/
#include "two_devices.h"

int main(void)
{
    two_devices();
    acc_map_data(host, other, 1000);
    return taken();
}
