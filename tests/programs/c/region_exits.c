// A region that calls exit: an error of the device that names the region, not the end of the program's own making.
// EXPECT device-memory
// BUILD offload=no
// EXPECT exit=1
// EXPECT stderr=/acc_error_execution/
// EXPECT stderr=/leave_early/
// EXPECT stderr=/set a variable that is copied out/
#include "check.h"

static void leave_early(int code)
{
#pragma acc parallel
    exit(code);
}

int main(void)
{
    leave_early(0);
    printf("FAIL: the region came back\n");
    return 0;
}
