// Dynamic reference counters: each enter adds one, each exit takes one, the last one copies out (2.6.7).
// BUILD core
#include "check.h"

int main(void)
{
    int a[8] = {0};
#pragma acc enter data copyin(a)
#pragma acc enter data copyin(a)
#pragma acc enter data create(a)
#pragma acc parallel loop present(a)
    for (int i = 0; i < 8; i++)
        a[i] = 5;
#pragma acc exit data copyout(a)
    CHECK_ALL(a, 8, WANT(0, 5));
    CHECK_EQ(acc_is_present(a, sizeof a), 1);
#pragma acc exit data delete(a)
    CHECK_EQ(acc_is_present(a, sizeof a), 1);
#pragma acc exit data copyout(a)
    CHECK_ALL(a, 8, 5);
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
#pragma acc exit data copyout(a) /* absent: nothing */
#pragma acc exit data delete(a)
    CHECK_ALL(a, 8, 5);
    return pass();
}
