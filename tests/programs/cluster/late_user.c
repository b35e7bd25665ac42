/* Becomes another user, and then runs a region on a device: `late_user DEVICE USER`; with `init` behind that it has initialised the device before. */
#define _GNU_SOURCE
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int device = argc > 1 ? atoi(argv[1]) : 0;
    uid_t user = argc > 2 ? atoi(argv[2]) : 0;
    int sum = 0;
    if (argc > 3 && !strcmp(argv[3], "init")) {
        acc_set_device_num(device, acc_device_default);
        acc_init(acc_device_default);
    }
    if (setresuid(user, user, user)) {
        perror("setresuid");
        return 2;
    }
    acc_set_device_num(device, acc_device_default);
#pragma acc parallel loop reduction(+ : sum)
    for (int i = 0; i < 10; i++)
        sum += i;
    printf("user %d: %d\n", (int)geteuid(), sum);
    return 0;
}
