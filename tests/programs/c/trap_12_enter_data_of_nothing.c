// enter data of an empty section: accepted, with nothing to be found afterwards.
// EXPECT device-memory
#include "check.h"

int main(void)
{
    int n = 0, *p = malloc(40);
#pragma acc enter data copyin(p[0:0])
#pragma acc enter data copyin(p[0:n])
    CHECK_EQ(acc_is_present(p, 4), WANT(0, 1));
#pragma acc exit data copyout(p[0:n])
#pragma acc exit data delete(p[0:0])
#pragma acc enter data copyin(p[0:10])
#pragma acc enter data copyin(p[0:0]) /* now it is inside something */
#pragma acc exit data delete(p[0:0])
#pragma acc exit data delete(p[0:10]) finalize
    CHECK_EQ(acc_is_present(p, 4), WANT(0, 1));
    return pass();
}
