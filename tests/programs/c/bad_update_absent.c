// acc_update_self of absent data.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_update_self/
// EXPECT stderr=/acc_error_not_present/
#include "check.h"

int main(void)
{
    int a[100] = {0};
    acc_init(acc_device_default);
    acc_update_self(a, sizeof a);
    printf("FAIL: absent data was updated\n");
    return 0;
}
