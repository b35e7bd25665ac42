// CPU devices appear as themselves or as nvidia; another name is an error that says so.
// RUN env=ACCORD_EMULATE=radeon
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/ACCORD_EMULATE is "radeon"/
// EXPECT stderr=/set it to nvidia/
#include "check.h"

int main(void)
{
    acc_init(acc_device_default);
    printf("FAIL: it was emulated\n");
    return 0;
}
