// use_device of absent data.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_error_not_present/
#include "check.h"

int main(void)
{
    int a[100] = {0};
    void *device = NULL;
#pragma acc host_data use_device(a)
    device = a;
    printf("FAIL: there is an address: %p\n", device);
    return 0;
}
