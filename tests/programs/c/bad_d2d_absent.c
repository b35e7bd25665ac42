// acc_memcpy_d2d of data absent on the source device.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_memcpy_d2d/
// EXPECT stderr=/acc_error_not_present/
#include "check.h"

int main(void)
{
    int a[10] = {0};
    CHECK(acc_memcpy_d2d != NULL);
    acc_set_device_num(1, device_type());
    acc_copyin(a, sizeof a);
    acc_memcpy_d2d(a, a, sizeof a, 1, 0);
    printf("FAIL: copied absent data\n");
    return 0;
}
