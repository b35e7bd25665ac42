// acc_memcpy_d2d with a device number out of range.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_memcpy_d2d/
// EXPECT stderr=/acc_error_device_unavailable/
#include "check.h"

int main(void)
{
    int a[10] = {0};
    CHECK(acc_memcpy_d2d != NULL);
    acc_copyin(a, sizeof a);
    acc_memcpy_d2d(a, a, sizeof a, 99, 0);
    printf("FAIL: copied to device 99\n");
    return 0;
}
