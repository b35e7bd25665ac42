// async and wait clauses on compute, enter data, exit data and update (2.16.1 to 2.16.3).
#include "check.h"

int main(void)
{
    enum { N = 256 };
    static int a[N], b[N];
    int q = 5;
#pragma acc enter data create(a, b) async(1)
#pragma acc parallel loop present(a) async(1)
    for (int i = 0; i < N; i++)
        a[i] = i;
#pragma acc parallel loop present(a, b) async(q) wait(1)
    for (int i = 0; i < N; i++)
        b[i] = a[i] + 1;
#pragma acc update self(b) async(q)
#pragma acc update self(a) wait(1, q)
    CHECK_EQ(a[7], 7);
    CHECK_EQ(b[7], 8);
#pragma acc parallel loop present(a, b) async wait
    for (int i = 0; i < N; i++)
        a[i] = b[i] * 2;
#pragma acc exit data copyout(a) delete(b) async(3) wait(acc_async_noval, q)
#pragma acc wait(3)
    for (int i = 0; i < N; i++)
        CHECK_EQ(a[i], (i + 1) * 2);
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    return pass();
}
