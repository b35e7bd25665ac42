// acc_wait_any on a device number out of range.
// EXPECT exit=1
// EXPECT stderr=/acc_wait_any_device.*no device number 99.*acc_error_device_unavailable/
// EXPECT device-memory
#include "check.h"

extern int acc_wait_any_device(int count, int queues[], int num) __attribute__((weak));

int main(void)
{
    int queues[] = {1};
    CHECK(acc_wait_any_device != NULL);
    return acc_wait_any_device(1, queues, 99) == 0 ? pass() : 2;
}
