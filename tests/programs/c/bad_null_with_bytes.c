// NULL with bytes is no data (3.2.18).
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_copyin/
// EXPECT stderr=/acc_error_invalid_null_pointer/
#include "check.h"

int main(void)
{
    acc_init(acc_device_default);
    acc_copyin(NULL, 80);
    printf("FAIL: 80 bytes at NULL were copied in\n");
    return 0;
}
