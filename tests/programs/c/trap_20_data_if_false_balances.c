// A data region whose `if` is false is still left: the region around it must survive.
#include "check.h"

int main(int argc, char **argv)
{
    (void)argv;
    int a[4] = {0}, b[4] = {0}, no = argc > 50;
#pragma acc data copy(a)
    {
        for (int round = 0; round < 3; round++) {
#pragma acc data copy(b) if (no)
            { }
#pragma acc host_data use_device(a) if (no)
            { }
        }
        CHECK_EQ(acc_is_present(a, sizeof a), 1);
#pragma acc parallel loop present(a)
        for (int i = 0; i < 4; i++)
            a[i] = 6;
    }
    CHECK_ALL(a, 4, 6);
    return pass();
}
