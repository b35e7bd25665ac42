// An async value that is negative and none of the special ones (2.16).
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_error_invalid_async/
#include "check.h"

int main(void)
{
    int queue = -9, x = 0;
#pragma acc parallel copy(x) async(queue)
    x = 1;
    printf("FAIL: queue -9 ran a region\n");
    return 0;
}
