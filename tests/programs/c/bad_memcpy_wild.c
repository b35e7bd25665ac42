// A copy to an address that acc_malloc never gave.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_error_/
#include "check.h"

int main(void)
{
    int a[10] = {0};
    acc_memcpy_to_device((void *)4096, a, sizeof a);
#pragma acc wait
    printf("FAIL: copied to nowhere\n");
    return 0;
}
