// Attaching a pointer that is not on the device.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_attach/
// EXPECT stderr=/acc_error_not_present/
#include "check.h"

int main(void)
{
    int x[4] = {0}, *p = x;
    acc_copyin(x, sizeof x);
    acc_attach((void **)&p);
    printf("FAIL: attached\n");
    return 0;
}
