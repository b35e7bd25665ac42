// References to scalars and arrays in clauses.
#include "check.h"

static void bump(int &r, int (&a)[10])
{
#pragma acc parallel loop copy(a) copyin(r)
    for (int i = 0; i < 10; i++)
        a[i] += r;
#pragma acc parallel copy(r)
    r += 5;
}

static void on_device(int &r)
{
#pragma acc enter data copyin(r)
#pragma acc parallel present(r)
    r *= 2;
#pragma acc exit data copyout(r)
}

int main()
{
    int a[10] = {0}, k = 7;
    bump(k, a);
    CHECK_ALL(a, 10, 7);
    CHECK_EQ(k, 12);
    on_device(k);
    CHECK_EQ(k, 24);
    return pass();
}
