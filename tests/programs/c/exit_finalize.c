// finalize sets the dynamic counter to zero at once (2.7.11).
#include "check.h"

int main(void)
{
    int a[8] = {0}, b[8] = {0};
    for (int k = 0; k < 5; k++) {
#pragma acc enter data copyin(a, b)
    }
#pragma acc parallel loop present(a, b)
    for (int i = 0; i < 8; i++)
        a[i] = b[i] = 9;
#pragma acc exit data copyout(a) delete(b) finalize
    CHECK_ALL(a, 8, 9);
    CHECK_ALL(b, 8, WANT(0, 9));
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    CHECK_EQ(acc_is_present(b, sizeof b), WANT(0, 1));
    return pass();
}
