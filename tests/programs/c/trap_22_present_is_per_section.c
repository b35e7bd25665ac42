// Presence is a matter of the section's bytes, not of the variable.
#include "check.h"

int main(void)
{
    int a[100];
    for (int i = 0; i < 100; i++)
        a[i] = i;
#pragma acc enter data copyin(a[10:20])
    CHECK_EQ(acc_is_present(a + 10, 20 * sizeof *a), 1);
    CHECK_EQ(acc_is_present(a + 29, sizeof *a), 1);
    CHECK_EQ(acc_is_present(a + 30, sizeof *a), WANT(0, 1));
    CHECK_EQ(acc_is_present(a, sizeof *a), WANT(0, 1));
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
#pragma acc parallel loop present(a[12:5])
    for (int i = 12; i < 17; i++)
        a[i] = -i;
#pragma acc enter data copyin(a[60:20]) /* another piece of the same array */
#pragma acc parallel loop present(a[60:20])
    for (int i = 60; i < 80; i++)
        a[i] = -i;
#pragma acc exit data copyout(a[60:20])
#pragma acc exit data copyout(a[10:20])
    for (int i = 0; i < 100; i++)
        CHECK_EQ(a[i], (i >= 12 && i < 17) || (i >= 60 && i < 80) ? -i : i);
    return pass();
}
