// Programs that read memory into which another queue is still copying have forgotten to wait (2.16); they work where copies of
// ordinary memory block, as under GCC's own library. Whatever reads it waits for the queue.
#include "check.h"

static int sizes[] = {1, 50, 3000, 40000, 400000};
static int *a, *b;

/* Has a queue bring `value` to `a`, which it removes from the device, after a while. */
static void bring(int n, int value, int queue)
{
#pragma acc enter data create(a[0:n])
#pragma acc parallel loop present(a[0:n]) async(queue)
    for (int i = 0; i < n; i++) {
        if (i == 0) {
            volatile double x = 0;
            for (int k = 0; k < 3000000; k++)
                x = x + k;
        }
        a[i] = value;
    }
#pragma acc exit data copyout(a[0:n]) async(queue)
}

static void synchronous_region(int n)
{
    bring(n, 1, 1);
#pragma acc parallel loop copyin(a[0:n]) copyout(b[0:n])
    for (int i = 0; i < n; i++)
        b[i] = a[i];
    CHECK_ALL(b, n, 1);
}

static void data_region(int n)
{
    bring(n, 2, 1);
#pragma acc data copyin(a[0:n]) copyout(b[0:n])
    {
#pragma acc parallel loop
        for (int i = 0; i < n; i++)
            b[i] = a[i];
    }
    CHECK_ALL(b, n, 2);
}

static void other_queue(int n)
{
    bring(n, 3, 1);
#pragma acc parallel loop copyin(a[0:n]) copyout(b[0:n]) async(2)
    for (int i = 0; i < n; i++)
        b[i] = a[i];
#pragma acc wait(2)
    CHECK_ALL(b, n, 3);
}

static void both_ways_in_other_queues(int n)
{
    bring(n, 4, 1);
#pragma acc parallel loop copy(a[0:n]) async(2)
    for (int i = 0; i < n; i++)
        a[i] += 10;
#pragma acc parallel loop copy(a[0:n]) async(3)
    for (int i = 0; i < n; i++)
        a[i] += 10;
#pragma acc wait(3)
    CHECK_ALL(a, n, 24);
}

static void update(int n)
{
#pragma acc enter data create(b[0:n])
    bring(n, 5, 1);
    acc_memcpy_to_device(acc_deviceptr(b), a, n * sizeof *a);
    acc_update_self(b, n * sizeof *b);
    CHECK_ALL(b, n, WANT(5, b[0]));
    bring(n, 6, 2);
    acc_memcpy_to_device_async(acc_deviceptr(b), a, n * sizeof *a, 1);
#pragma acc exit data copyout(b[0:n]) async(1)
#pragma acc wait(1)
    CHECK_ALL(b, n, WANT(6, b[0]));
}

struct big {
    int values[20000];
};

static void by_value(int n)
{
    (void)n;
    static struct big big;
    static int small, got[2];
    big.values[7] = small = 0;
#pragma acc enter data create(big, small)
#pragma acc parallel present(big, small) async(1)
    {
        volatile double x = 0;
        for (int k = 0; k < 3000000; k++)
            x = x + k;
        big.values[7] = 7;
        small = 8;
    }
#pragma acc exit data copyout(big, small) async(1)
#pragma acc parallel firstprivate(big, small) copyout(got) async(2)
    {
        got[0] = big.values[7];
        got[1] = small;
    }
#pragma acc wait(2)
    CHECK_EQ(got[0], 7);
    CHECK_EQ(got[1], 8);
}

static void other_device(int n)
{
    acc_device_t type = acc_get_device_type();
    int here = acc_get_device_num(type), there = (here + 1) % acc_get_num_devices(type);
    for (int queue = -1; queue < 3; queue += 3) {
        bring(n, 9 + queue, 1);
        acc_set_device_num(there, type);
        acc_copyin_async(a, n * sizeof *a, acc_async_sync);
        acc_delete(a, n * sizeof *a);
#pragma acc parallel loop copyin(a[0:n]) copyout(b[0:n]) async(queue)
        for (int i = 0; i < n; i++)
            b[i] = a[i];
#pragma acc wait
        acc_set_device_num(here, type);
        CHECK_ALL(b, n, 9 + queue);
    }
}

int main(void)
{
    void (*tests[])(int) = {synchronous_region, data_region, other_queue,  both_ways_in_other_queues,
                            update,             by_value,    other_device};
    for (int s = 0; s < (int)(sizeof sizes / sizeof *sizes); s++)
        for (int t = 0; t < (int)(sizeof tests / sizeof *tests); t++) {
            int n = sizes[s];
            a = calloc(n, sizeof *a);
            b = calloc(n, sizeof *b);
            tests[t](n);
#pragma acc wait
            free(a);
            free(b);
        }
    return pass();
}
