// The *_async data routines (3.2.18 to 3.2.20).
#include "check.h"

enum { N = 50 };
static int a[N];

static void add_on_device(int k, int queue)
{
#pragma acc parallel loop present(a) async(queue)
    for (int i = 0; i < N; i++)
        a[i] += k;
}

int main(void)
{
    acc_copyin_async(a, sizeof a, 1);
    add_on_device(1, 1);
    acc_update_self_async(a, sizeof a, 1);
    acc_wait(1);
    CHECK_ALL(a, N, 1);
    for (int i = 0; i < N; i++)
        a[i] = 7;
    acc_update_device_async(a, sizeof a, 1);
    add_on_device(1, 1);
    acc_copyout_async(a, sizeof a, 1);
    acc_wait(1);
    CHECK_ALL(a, N, 8);
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));

    acc_create_async(a, sizeof a, 2);
    acc_update_device_async(a, sizeof a, 2);
    acc_create_async(a, sizeof a, 2);
    add_on_device(2, 2);
    acc_delete_async(a, sizeof a, 2);
    CHECK_EQ(acc_is_present(a, sizeof a), 1);
    acc_copyout_finalize_async(a, sizeof a, 2);
    acc_wait(2);
    CHECK_ALL(a, N, 10);
    acc_copyin_async(a, sizeof a, acc_async_noval);
    acc_copyin_async(a, sizeof a, acc_async_sync);
    acc_delete_finalize_async(a, sizeof a, acc_async_noval);
    acc_wait(acc_async_noval);
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    return pass();
}
