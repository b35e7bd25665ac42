// `if(false)`: data constructs do nothing, regions run on the host with the host's memory (2.5.6, 2.6.5).
#include "check.h"

int main(int argc, char **argv)
{
    (void)argv;
    int a[16], yes = argc > 0, no = argc > 100;
    for (int i = 0; i < 16; i++)
        a[i] = i;
#pragma acc data copyin(a) if (no)
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
#pragma acc enter data copyin(a) if (no)
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));

#pragma acc enter data copyin(a) if (yes)
    CHECK_EQ(acc_is_present(a, sizeof a), 1);
#pragma acc parallel loop present(a) if (no)
    for (int i = 0; i < 16; i++)
        a[i] = 50;
    CHECK_ALL(a, 16, 50); /* on the host */
#pragma acc update self(a) if (no)
    CHECK_ALL(a, 16, 50);
#pragma acc update self(a) if (yes)
    for (int i = 0; i < 16; i++)
        CHECK_EQ(a[i], WANT(i, 50));
#pragma acc exit data delete(a) if (no)
    CHECK_EQ(acc_is_present(a, sizeof a), 1);
#pragma acc exit data delete(a) if (yes)
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    return pass();
}
