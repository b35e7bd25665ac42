// NULL as the device's side of a copy with bytes.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_memcpy_to_device/
// EXPECT stderr=/acc_error_invalid_null_pointer/
#include "check.h"

int main(void)
{
    int a[10] = {0};
    acc_memcpy_to_device(NULL, a, sizeof a);
    printf("FAIL: copied to NULL\n");
    return 0;
}
