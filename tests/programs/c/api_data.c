// The data routines and their old names (3.2.18 to 3.2.20, 3.2.23 to 3.2.25, 1.0 and 2.0 names included).
// BUILD core
#include "check.h"

enum { N = 50 };
static int a[N];

static void add_on_device(int k)
{
#pragma acc parallel loop present(a)
    for (int i = 0; i < N; i++)
        a[i] += k;
}

static void set(int value)
{
    for (int i = 0; i < N; i++)
        a[i] = value;
}

int main(void)
{
    set(1);
    void *d = acc_copyin(a, sizeof a);
    CHECK(d != NULL);
    CHECK(acc_deviceptr(a) == d);
    CHECK(acc_deviceptr(a + 3) == (char *)d + 3 * sizeof(int));
    CHECK(acc_hostptr(d) == a);
    CHECK(acc_hostptr((char *)d + 8) == a + 2);
    CHECK_EQ(acc_is_present(a, sizeof a), 1);
    CHECK_EQ(acc_is_present(a + 10, 4), 1);
    CHECK(acc_present_or_copyin(a, sizeof a) == d);
    CHECK(acc_pcopyin(a, sizeof a) == d);
    CHECK(acc_create(a, sizeof a) == d);
    CHECK(acc_present_or_create(a, sizeof a) == d);
    CHECK(acc_pcreate(a, sizeof a) == d); /* counter 6 */
    add_on_device(1);
    acc_update_self(a, 10 * sizeof *a);
    for (int i = 0; i < N; i++)
        CHECK_EQ(a[i], i < 10 ? 2 : WANT(1, 2));
    set(5);
    acc_update_device(a, sizeof a);
    add_on_device(1);
    acc_copyout(a, sizeof a);
    CHECK_ALL(a, N, WANT(5, 6));
    for (int k = 0; k < 4; k++)
        acc_delete(a, sizeof a);
    CHECK_EQ(acc_is_present(a, sizeof a), 1);
    acc_copyout(a, sizeof a); /* the last one copies */
    CHECK_ALL(a, N, 6);
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    if (separate()) {
        CHECK(acc_deviceptr(a) == NULL);
        CHECK(acc_hostptr(d) == NULL);
    }
    acc_copyin(a, sizeof a);
    acc_copyin(a, sizeof a);
    add_on_device(10);
    acc_copyout_finalize(a, sizeof a);
    CHECK_ALL(a, N, 16);
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    acc_create(a, sizeof a);
    acc_create(a, sizeof a);
    acc_delete_finalize(a, sizeof a);
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    acc_delete(a, sizeof a); /* absent: nothing */
    acc_copyout(a, sizeof a);
    CHECK_ALL(a, N, 16);
    return pass();
}
