// acc_memcpy_to_device with a device address where the program's memory is meant (3.2.26).
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_memcpy_to_device.*acc_error_invalid_argument/
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
    acc_memcpy_to_device(own, other, 1000);
    printf("FAIL: took another device's address %p, own %p, host %p\n", (void *)other, (void *)own, (void *)host);
    return 0;
}
