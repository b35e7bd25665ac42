/* A shared object for programs that open it so that it finds libgomp before libacc. Its constructor uses a device already. */
#include <openacc.h>

static int is_separate(void)
{
    int x = 1, y = 0;
#pragma acc enter data copyin(x)
    x = 2;
#pragma acc parallel copyout(y) present(x)
    y = x;
#pragma acc exit data delete(x)
    return y == 1;
}

static int at_start = -1;

/* By data alone: GCC registers the object's code for GPUs in a constructor that runs after this one. */
__attribute__((constructor)) static void start(void)
{
    int x = 1;
#pragma acc enter data copyin(x)
    x = 2;
#pragma acc exit data copyout(x)
    at_start = x == 1;
}

/* Whether device memory was separate in the constructor, and is now. */
int plugin_separate_at_start(void)
{
    return at_start;
}

int plugin_separate(void)
{
    return is_separate();
}

/* The number of devices, by a routine whose address is a constant of the object. */
static int (*const count)(acc_device_t) = acc_get_num_devices;

int plugin_devices(void)
{
    return count(acc_get_device_type());
}

/* Doubles what is present, and so was mapped by the caller. */
void plugin_double(int *a, int n)
{
#pragma acc parallel loop present(a[0:n])
    for (int i = 0; i < n; i++)
        a[i] *= 2;
}
