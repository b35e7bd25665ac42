/* What the benches of copies between two devices share: Accord's routines, a clock, and the middle of what things took. No driver is needed. */
#ifndef D2D_H
#define D2D_H
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* GCC 12 has none of its own. */
__attribute__((weak)) void acc_memcpy_d2d(void *, void *, size_t, int, int);
__attribute__((weak)) void acc_memcpy_d2d_async(void *, void *, size_t, int, int, int);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int order(const void *a, const void *b)
{
    double by = *(const double *)a - *(const double *)b;
    return (by > 0) - (by < 0);
}

/* The devices' type; ends the program where there are no two, or no Accord. */
static acc_device_t two_devices(void)
{
    acc_device_t type = acc_get_device_type();
    if (acc_get_num_devices(type) < 2 || !acc_memcpy_d2d) {
        fprintf(stderr, "it takes two devices, and Accord\n");
        exit(1);
    }
    return type;
}
#endif
