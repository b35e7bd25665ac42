// acc_wait with a negative async value.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_wait/
// EXPECT stderr=/acc_error_invalid_async/
#include "check.h"

int main(void)
{
    acc_init(acc_device_default);
    acc_wait(-77);
    printf("FAIL: waited for queue -77\n");
    return 0;
}
