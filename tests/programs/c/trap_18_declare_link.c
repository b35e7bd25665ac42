// declare link: absent until mapped; then regions find the mapped copy.
#include "check.h"

int lnk[16];
#pragma acc declare link(lnk)

static int peek(int i)
{
    int got = -1;
#pragma acc parallel present(lnk) copyout(got)
    got = lnk[i];
    return got;
}

int main(void)
{
    int got = -1;
    for (int i = 0; i < 16; i++)
        lnk[i] = i + 1;
    CHECK_EQ(acc_is_present(lnk, sizeof lnk), WANT(0, 1));
#pragma acc enter data copyin(lnk)
    CHECK_EQ(acc_is_present(lnk, sizeof lnk), 1);
    lnk[3] = 99;
    got = peek(3);
    CHECK_EQ(got, WANT(4, 99));
#pragma acc parallel loop present(lnk)
    for (int i = 0; i < 16; i++)
        lnk[i] = 2 * i;
#pragma acc exit data copyout(lnk)
    for (int i = 0; i < 16; i++)
        CHECK_EQ(lnk[i], 2 * i);
    CHECK_EQ(acc_is_present(lnk, sizeof lnk), WANT(0, 1));
#pragma acc enter data copyin(lnk)
    got = peek(5);
    CHECK_EQ(got, 10);
#pragma acc exit data delete(lnk)
    return pass();
}
