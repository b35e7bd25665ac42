// Async values of every size, as constants and variables; noval and sync (2.16).
#include "check.h"

static int count;

static void bump(int queue)
{
#pragma acc parallel present(count) async(queue)
    count++;
#pragma acc wait(queue)
}

int main(void)
{
#pragma acc enter data copyin(count)
    bump(0);
    bump(1);
    bump(65534);
    bump(65535);
    bump(65536);
    int extra = separate(); /* libgomp 12 keeps an array of all queues up to the number */
    if (extra)
        bump(2147483647);
    bump(acc_async_noval);
#pragma acc parallel present(count) async(65534)
    count++;
#pragma acc wait
#pragma acc parallel present(count) async(65535)
    count++;
#pragma acc wait(65535)
#pragma acc parallel present(count) async(acc_async_sync)
    count++;
#pragma acc update self(count)
    CHECK_EQ(count, 9 + extra);
#pragma acc exit data delete(count)
    return pass();
}
