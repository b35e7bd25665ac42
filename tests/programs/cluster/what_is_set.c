/* Which variables of the program's environment a region sees, on the first device and on the last. */
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int devices = acc_get_num_devices(acc_device_default);

    for (int d = 0; d < devices; d++) {
        acc_set_device_num(d, acc_device_default);
        for (int i = 1; i < argc; i++) {
            char name[64] = { 0 };
            int set = -1;
            snprintf(name, sizeof name, "%s", argv[i]);
#pragma acc parallel num_gangs(1) copyin(name) copy(set)
            set = getenv(name) != 0;
            printf("device %d: %s %s\n", d, name, set ? "set" : "unset");
        }
    }
    return 0;
}
