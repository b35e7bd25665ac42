// What a region on the last GPU prints is there when the region has been waited for, and not later. With the driver that tests
// bring along, cluster_kernels.c has what runs in the region's place.
// EXPECT stdout=/^region 0$/
// EXPECT stdout=/^region 2$/
#include "check.h"

static void say(int n)
{
#pragma acc parallel num_gangs(1) async(1)
    printf("region %d\n", n);
}

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    acc_set_device_num(acc_get_num_devices(acc_device_nvidia) - 1, acc_device_nvidia);
    for (int n = 0; n < 3; n++) {
        say(n);
#pragma acc wait(1)
        printf("waited %d\n", n);
    }
    return pass();
}
