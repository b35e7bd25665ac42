// A structured and a dynamic reference at once: data stays until both are gone.
#include "check.h"

int main(void)
{
    int a[8] = {1, 1, 1, 1, 1, 1, 1, 1};
#pragma acc data copyin(a)
    {
#pragma acc enter data copyin(a)
#pragma acc parallel loop present(a)
        for (int i = 0; i < 8; i++)
            a[i] = 2;
    }
    CHECK_EQ(acc_is_present(a, sizeof a), 1);
    CHECK_ALL(a, 8, WANT(1, 2));
#pragma acc exit data copyout(a)
    CHECK_ALL(a, 8, 2);
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    return pass();
}
