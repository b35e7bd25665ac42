// Programs that have two queues copy to the same memory have forgotten to wait (2.16); they work where copies of ordinary
// memory block, as under GCC's own library: what was put in last stays.
#include "check.h"

static int sizes[] = {1, 50, 3000, 40000, 400000};
static int *a;

#pragma acc routine seq
static void slowly(void)
{
    volatile double x = 0;
    for (int k = 0; k < 3000000; k++)
        x = x + k;
}

/* Has a queue bring `value` to `a`, which it removes from the device, after a while. */
static void bring(int n, int value, int queue)
{
#pragma acc enter data create(a[0:n])
#pragma acc parallel loop present(a[0:n]) async(queue)
    for (int i = 0; i < n; i++) {
        if (i == 0)
            slowly();
        a[i] = value;
    }
#pragma acc exit data copyout(a[0:n]) async(queue)
}

/* The same, where a region changes a variable that it copies both ways. */
static void change(int n, int value, int queue)
{
    (void)n;
    int *p = a;
#pragma acc parallel copy(p[0:1]) async(queue)
    {
        slowly();
        p[0] = value;
    }
}

static void by_region(int n, int value, int queue)
{
#pragma acc parallel loop copyout(a[0:n]) async(queue)
    for (int i = 0; i < n; i++)
        a[i] = value;
}

/* On a device that has `a` already. */
static void by_update(int n, int value, int queue)
{
#pragma acc parallel loop present(a[0:n]) async(queue)
    for (int i = 0; i < n; i++)
        a[i] = value;
#pragma acc update self(a[0:n]) async(queue)
}

static void by_routine(int n, int value, int queue)
{
#pragma acc parallel loop present(a[0:n]) async(queue)
    for (int i = 0; i < n; i++)
        a[i] = value;
    if (queue == acc_async_sync)
        acc_memcpy_from_device(a, acc_deviceptr(a), n * sizeof *a);
    else
        acc_memcpy_from_device_async(a, acc_deviceptr(a), n * sizeof *a, queue);
}

static void here_and_there(int n)
{
    acc_device_t type = acc_get_device_type();
    int here = acc_get_device_num(type), there = (here + 1) % acc_get_num_devices(type);
    void (*first[])(int, int, int) = {bring, change};
    void (*then[])(int, int, int) = {by_region, by_update, by_routine};
    for (int f = 0; f < 2; f++)
        for (int t = 0; t < 3; t++)
            for (int other = 0; other < 2; other++)
                for (int queue = acc_async_sync; queue < 3; queue += 2 - acc_async_sync) {
                    int second = other ? there : here, value = 100 + 10 * t + queue, has = t > 0;
                    /* On one device the data is the first one's. */
                    if (has && second == here)
                        continue;
                    if (has) {
                        acc_set_device_num(second, type);
                        acc_create(a, n * sizeof *a);
                        acc_set_device_num(here, type);
                    }
                    first[f](n, 1, 1);
                    acc_set_device_num(second, type);
                    then[t](n, value, queue);
                    acc_wait_all();
                    acc_set_device_num(here, type);
                    acc_wait_all();
                    CHECK_ALL(a, f == 1 ? 1 : n, value);
                    if (has) {
                        acc_set_device_num(second, type);
                        acc_delete(a, n * sizeof *a);
                        acc_set_device_num(here, type);
                    }
                }
}

int main(void)
{
    for (int s = 0; s < (int)(sizeof sizes / sizeof *sizes); s++) {
        a = calloc(sizes[s], sizeof *a);
        here_and_there(sizes[s]);
        free(a);
    }
    return pass();
}
