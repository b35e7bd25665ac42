// exit data of what only a structured region holds does nothing, and does not count below zero.
#include "check.h"

int main(void)
{
    int a[6] = {1, 1, 1, 1, 1, 1};
#pragma acc data copy(a)
    {
#pragma acc exit data delete(a)
#pragma acc exit data copyout(a)
        acc_delete(a, sizeof a);
        CHECK_EQ(acc_is_present(a, sizeof a), 1);
#pragma acc parallel loop present(a)
        for (int i = 0; i < 6; i++)
            a[i] += 1;
        CHECK_ALL(a, 6, WANT(1, 2));
    }
    CHECK_ALL(a, 6, 2);
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
#pragma acc enter data copyin(a)
#pragma acc exit data delete(a)
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    return pass();
}
