// acc_get_default_async gives a queue, also before it is set: one that `async` without an argument uses, and that
// routines and clauses take (3.2.13).
// EXPECT device-memory
#include "check.h"

extern int acc_get_default_async(void) __attribute__((weak));
extern void acc_set_default_async(int) __attribute__((weak));

static int work(int queue)
{
    enum { N = 100000 };
    static int a[N];
    memset(a, 0, sizeof a);
#pragma acc parallel loop copy(a) async
    for (int i = 0; i < N; i++)
        a[i] = i;
#pragma acc wait(queue)
    for (int i = 0; i < N; i++)
        if (a[i] != i)
            return 0;
    return acc_async_test(queue);
}

int main(void)
{
    if (!acc_get_default_async || !acc_set_default_async) {
        printf("skipped: this library has no default queue\n");
        return pass();
    }
    int queue = acc_get_default_async();
    CHECK(queue >= 0);
    CHECK_EQ(work(queue), 1);
    CHECK_EQ(work(acc_async_noval), 1);
    acc_set_default_async(7);
    CHECK_EQ(acc_get_default_async(), 7);
    CHECK_EQ(work(7), 1);
    acc_set_default_async(acc_async_noval);
    CHECK_EQ(acc_get_default_async(), queue);
    CHECK_EQ(work(queue), 1);
    int x = 1;
#pragma acc enter data copyin(x) async(acc_get_default_async())
    acc_wait_async(acc_get_default_async(), 3);
    acc_wait(3);
#pragma acc exit data delete(x)
    return pass();
}
