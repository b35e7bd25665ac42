// A data clause with a device address where the program's memory is meant.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/parallel.*acc_error_invalid_argument/
// EXPECT stderr=/is memory of dev\d \(/
#include "check.h"

int main(void)
{
    acc_device_t type = device_type();
    char host[1000] = {0};
    acc_set_device_num(0, type);
    char *other = acc_malloc(1000);
    acc_set_device_num(1, type);
    char *own = acc_malloc(1000);
#pragma acc parallel copy(own[0:1000])
    own[0] = 1;
    printf("FAIL: took another device's address %p, own %p, host %p\n", (void *)other, (void *)own, (void *)host);
    return 0;
}
