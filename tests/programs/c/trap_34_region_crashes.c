// A region that writes through a wild pointer: the device fails, the program ends with status 1, and
// the message names the region's function and position.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_error_execution/
// EXPECT stderr=/wild_write/
// EXPECT stderr=/trap_34_region_crashes\.c:\d+/
#include "check.h"

static void wild_write(int *p)
{
#pragma acc parallel deviceptr(p)
    *p = 1;
}

int main(void)
{
    wild_write((int *)16);
    printf("FAIL: the region came back\n");
    return 0;
}
