// finalize takes only the dynamic references: an enclosing region keeps the data.
#include "check.h"

int main(void)
{
    int a[6] = {1, 1, 1, 1, 1, 1};
#pragma acc data copy(a)
    {
#pragma acc enter data copyin(a)
#pragma acc enter data copyin(a)
#pragma acc parallel loop present(a)
        for (int i = 0; i < 6; i++)
            a[i] = 3;
#pragma acc exit data delete(a) finalize
        acc_delete_finalize(a, sizeof a);
        CHECK_EQ(acc_is_present(a, sizeof a), 1);
        CHECK_ALL(a, 6, WANT(1, 3));
    }
    CHECK_ALL(a, 6, 3);
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    return pass();
}
