// acc_delete and acc_copyout of NULL, with bytes and without, and of no bytes of what is present: nothing happens,
// as in GCC's own library. A key of the table is an address and a length, and there is no data at either (3.2.19).
// EXPECT device-memory
#include "check.h"

int main(void)
{
    enum { N = 50 };
    int a[N], *none = NULL;
    for (int i = 0; i < N; i++)
        a[i] = i;
    acc_copyin(a, sizeof a);
    acc_delete(none, sizeof a);
    acc_delete_async(none, sizeof a, 1);
    acc_delete_finalize(none, sizeof a);
    acc_copyout(none, sizeof a);
    acc_copyout_async(none, 8, 1);
    acc_copyout_finalize(none, 8);
    acc_wait_all();
    acc_delete(a, 0);
    acc_copyout(a, 0);
    acc_delete_finalize(a, 0);
    acc_copyout_finalize(a + 3, 0);
    CHECK_EQ(acc_is_present(a, sizeof a), 1);
#pragma acc parallel loop present(a)
    for (int i = 0; i < N; i++)
        a[i] *= 2;
    acc_copyout(a, sizeof a);
    CHECK_EQ(acc_is_present(a, sizeof a), 0);
    for (int i = 0; i < N; i++)
        CHECK_EQ(a[i], 2 * i);
    acc_delete(a, sizeof a); /* absent */
    acc_copyout(a, sizeof a);

    /* What no bytes began, no bytes end. */
    acc_create(a, 0);
    acc_delete(a, 0);
    acc_create(a, sizeof a);
    acc_delete(a, sizeof a);
    CHECK_EQ(acc_is_present(a, sizeof a), 0);
    return pass();
}
