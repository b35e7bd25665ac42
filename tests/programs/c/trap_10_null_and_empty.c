// NULL with any size, size 0 of anything, a region without any data: all legal.
#include "check.h"

static int touched = 0;
#pragma acc declare create(touched)

static void with(int *p, int n)
{
    int got = -1;
#pragma acc parallel copy(p[0:n]) copyout(got)
    got = p ? 1 : 0;
    CHECK(got == 0 || got == 1);
#pragma acc enter data copyin(p[0:n])
#pragma acc update self(p[0:n]) if_present
#pragma acc exit data delete(p[0:n])
}

int main(void)
{
    int x[1] = {0};
    with(NULL, 0);
    with(x, 0);
#pragma acc parallel
    { }
    // Without the clause it is firstprivate, of which optimizing GCC passes an address that it never stored.
#pragma acc parallel present(touched)
    touched = 1;
    acc_update_self(&touched, sizeof touched);
    CHECK(touched == 1);
    return pass();
}
