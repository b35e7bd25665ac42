/* How long the first use of a GPU takes: by hand (argument "raw"), or acc_init. One process each.
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_start.c -ldl */
#include "gpu_raw.h"
#include <openacc.h>
#include <string.h>

int main(int argc, char **argv)
{
    double t = now_us();
    const char *what = "acc_init";
    if (argc > 1 && !strcmp(argv[1], "raw")) {
        raw_handle context;
        int device;
        what = "context by hand";
        raw_load();
        RAW(cuDeviceGet, &device, 0);
        RAW(cuDevicePrimaryCtxRetain, &context, device);
    } else {
        acc_init(acc_device_nvidia);
    }
    double ms = (now_us() - t) / 1e3;
    int x = 1;
    if (argc < 2) {
#pragma acc parallel copy(x)
        x = 2;
    }
    report("start", what, "ms", &ms, 1);
    return x == 0;
}
