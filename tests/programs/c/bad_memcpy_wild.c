// A copy to an address that acc_malloc never gave: an error at the call, or at the device's next synchronous act.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_error_/
#include "check.h"

int main(void)
{
    int a[10] = {0};
    acc_memcpy_to_device((void *)4096, a, sizeof a);
    acc_update_self(a, 0);
    acc_memcpy_from_device(a, (void *)4096, sizeof a);
    printf("FAIL: copied to nowhere\n");
    return 0;
}
