// A region that calls abort.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_error_execution/
// EXPECT stderr=/give_up/
#include "check.h"

static void give_up(void)
{
#pragma acc parallel
    abort();
}

int main(void)
{
    give_up();
    printf("FAIL: the region came back\n");
    return 0;
}
