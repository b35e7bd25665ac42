// "leave": fills memory of a device of another node with a byte, says so, and waits for its end or for being killed. "look": says how
// much of memory that it has just got holds that byte.
#include "check.h"
#include <stdlib.h>
#include <string.h>

enum { LEN = 24 << 20, SECRET = 0x5e };

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    acc_device_t type = device_type();
    acc_set_device_num(acc_get_num_devices(type) - 1, type);
    char *bytes = malloc(LEN);
    CHECK(bytes);
    char *device = acc_malloc(LEN);
    CHECK(device);
    if (strcmp(argv[1], "leave") == 0) {
        memset(bytes, SECRET, LEN);
        acc_memcpy_to_device(device, bytes, LEN);
        // They have been taken from here, but need not be there yet.
        acc_memcpy_from_device(bytes, device, LEN);
        printf("left\n");
        fflush(stdout);
        getchar();
        return 0;
    }
    memset(bytes, 0, LEN);
    acc_memcpy_from_device(bytes, device, LEN);
    int seen = 0;
    for (int i = 0; i < LEN; i++)
        seen += bytes[i] == SECRET;
    printf("seen %d\n", seen);
    return 0;
}
