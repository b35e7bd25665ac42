// One region that takes as many seconds as its argument says, on the last device; says "ready" before the wait.
#include "check.h"
#include <time.h>

#pragma acc routine seq
static void spin(int seconds)
{
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec - begun.tv_sec < seconds);
}

int main(int argc, char **argv)
{
    int seconds = argc > 1 ? atoi(argv[1]) : 1, done = 0;
    acc_set_device_num(acc_get_num_devices(device_type()) - 1, device_type());
#pragma acc parallel copyout(done) async(1)
    {
        spin(seconds);
        done = 1;
    }
    printf("ready\n");
    fflush(stdout);
#pragma acc wait(1)
    CHECK_EQ(done, 1);
    return pass();
}
