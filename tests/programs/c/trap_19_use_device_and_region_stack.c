// host_data is a region too: it is left by the same call as data regions, in order.
#include "check.h"

int main(void)
{
    int a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8};
#pragma acc data copy(a)
    {
#pragma acc host_data use_device(a)
        {
#pragma acc data copy(b)
            {
#pragma acc parallel loop present(b)
                for (int i = 0; i < 4; i++)
                    b[i]++;
            }
        }
        CHECK_EQ(acc_is_present(a, sizeof a), 1);
        CHECK_EQ(acc_is_present(b, sizeof b), WANT(0, 1));
#pragma acc parallel loop present(a)
        for (int i = 0; i < 4; i++)
            a[i]++;
    }
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(a[i], i + 2);
        CHECK_EQ(b[i], i + 6);
    }
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    return pass();
}
