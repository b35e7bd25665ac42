// Memory of two devices, for programs that mistake the one's for the other's.
#include "check.h"

static char host[1000];
static char *other, *own;

// `other` is on device 0, `own` on device 1, which the program uses from here on.
static void two_devices(void)
{
    acc_device_t type = device_type();
    acc_set_device_num(0, type);
    other = acc_malloc(sizeof host);
    acc_set_device_num(1, type);
    own = acc_malloc(sizeof host);
}

// The program has gone on.
static int taken(void)
{
    printf("FAIL: took a device's address %p, own %p, host %p\n", (void *)other, (void *)own, (void *)host);
    return 0;
}
