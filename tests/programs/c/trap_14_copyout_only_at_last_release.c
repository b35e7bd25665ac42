// copyout inside a region that has the data, and exit data with a count left, copy nothing.
#include "check.h"

int main(void)
{
    int a[6] = {0};
#pragma acc data create(a)
    {
#pragma acc parallel loop copyout(a)
        for (int i = 0; i < 6; i++)
            a[i] = 4;
        CHECK_ALL(a, 6, WANT(0, 4));
    }
    CHECK_ALL(a, 6, WANT(0, 4));
#pragma acc enter data copyin(a)
#pragma acc enter data copyin(a)
#pragma acc parallel loop present(a)
    for (int i = 0; i < 6; i++)
        a[i] = 8;
#pragma acc exit data copyout(a)
    CHECK_ALL(a, 6, WANT(0, 8));
#pragma acc exit data copyout(a)
    CHECK_ALL(a, 6, 8);
    return pass();
}
