// Says how many devices it has in a file that others write to, uses each of them, and says that it has them no longer.
#include "check.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say(const char *path, const char *sign, int devices)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s%d %d\n", sign, devices, (int)getpid());
    int file = open(path, O_WRONLY | O_APPEND);
    CHECK(file >= 0);
    // One write is one line, also beside other writers.
    CHECK_EQ(write(file, line, (size_t)length), length);
    close(file);
}

int main(int argc, char **argv)
{
    CHECK_EQ(argc, 3);
    acc_device_t type = device_type();
    int devices = acc_get_num_devices(type);
    say(argv[1], "+", devices);
    for (int device = 0; device < devices; device++) {
        int value = 0;
        acc_set_device_num(device, type);
#pragma acc parallel loop copy(value)
        for (int i = 0; i < 1; i++)
            value = 7;
        CHECK_EQ(value, 7);
    }
    printf("holds %d\n", devices);
    fflush(stdout);
    usleep((useconds_t)atoi(argv[2]) * 1000);
    say(argv[1], "-", devices);
    return pass();
}
