// A sum over blocks in two queues, and on all devices, with no wait between: each region goes on from what the one before has made of it. The program should
// have joined the queues (OpenACC 3.3, 2.16), but works under GCC's own library, whose copies of the variable block.
#include "check.h"

enum { BLOCKS = 12, BLOCK = 256, N = BLOCKS * BLOCK };

static int a[N];

static int sum_in_queues(void)
{
    int sum = 0;
#pragma acc data copyin(a)
    {
        for (int b = 0; b < BLOCKS; b++) {
#pragma acc parallel loop reduction(+ : sum) async(b % 2 + 1)
            for (int i = b * BLOCK; i < (b + 1) * BLOCK; i++)
                sum += a[i];
        }
#pragma acc wait
    }
    return sum;
}

static int sum_on_devices(void)
{
    int sum = 0, devices = acc_get_num_devices(acc_get_device_type());
    for (int b = 0; b < BLOCKS; b++) {
        if (devices > 0)
            acc_set_device_num(b % devices, acc_get_device_type());
#pragma acc parallel loop reduction(+ : sum) copyin(a[b * BLOCK:BLOCK]) async(1)
        for (int i = b * BLOCK; i < (b + 1) * BLOCK; i++)
            sum += a[i];
    }
    for (int d = 0; d < devices; d++) {
        acc_set_device_num(d, acc_get_device_type());
#pragma acc wait
    }
    return sum;
}

/* Another queue's region takes along what the first one makes of a value. */
static int handed_on(void)
{
    int seen = 0;
    for (int round = 0; round < 4; round++) {
        int made = 0;
#pragma acc parallel copy(made) async(1)
        for (int i = 0; i < 1000; i++)
            made += 1;
#pragma acc parallel copyin(made) copy(seen) async(2)
        seen += made;
#pragma acc wait
    }
    return seen;
}

int main(void)
{
    int expected = 0;
    for (int i = 0; i < N; i++)
        expected += a[i] = i % 7;
    for (int round = 0; round < 3; round++) {
        CHECK(sum_in_queues() == expected);
        CHECK(sum_on_devices() == expected);
    }
    CHECK(handed_on() == 4000);
    return pass();
}
