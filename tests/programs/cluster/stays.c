/* Opens a session, by a region on the last device with "use", and stays until standard input ends; then a region shows that the session is there. */
#include <openacc.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int x = 1, devices = acc_get_num_devices(acc_device_default);

    if (argc > 1 && strcmp(argv[1], "use") == 0) {
        acc_set_device_num(devices - 1, acc_device_default);
#pragma acc parallel copy(x)
        x++;
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    acc_set_device_num(devices - 1, acc_device_default);
#pragma acc parallel copy(x)
    x++;
    printf("x=%d\n", x);
    return 0;
}
