// Queue routines: test, wait, wait_async and the 1.0 names (3.2.9 to 3.2.11).
#include "check.h"

int main(void)
{
    enum { N = 1000 };
    static int a[N], b[N];
    acc_init(acc_device_default);
    CHECK_EQ(acc_async_test(9), 1);
    CHECK_EQ(acc_async_test_all(), 1);
    acc_wait(9);
    acc_async_wait(9);
    acc_wait_all();
    acc_async_wait_all();
#pragma acc data copy(a, b)
    {
#pragma acc parallel loop async(1)
        for (int i = 0; i < N; i++)
            a[i] = i;
        acc_wait_async(1, 2); /* queue 2 waits for queue 1 */
#pragma acc parallel loop async(2)
        for (int i = 0; i < N; i++)
            b[i] = a[i] + 1;
        acc_wait_all_async(3);
#pragma acc parallel loop async(3)
        for (int i = 0; i < N; i++)
            a[i] = b[i] + 1;
        acc_wait_async(3, 3); /* for itself: nothing */
        acc_wait(3);
        CHECK_EQ(acc_async_test(3), 1);
        acc_async_wait(2);
        acc_wait_all();
        CHECK_EQ(acc_async_test(1), 1);
        CHECK_EQ(acc_async_test_all(), 1);
#pragma acc parallel loop async
        for (int i = 0; i < N; i++)
            a[i] += 1;
        acc_wait(acc_async_noval);
        CHECK_EQ(acc_async_test(acc_async_noval), 1);
        acc_async_wait_all();
    }
    for (int i = 0; i < N; i++) {
        CHECK_EQ(b[i], i + 1);
        CHECK_EQ(a[i], i + 3);
    }
    return pass();
}
