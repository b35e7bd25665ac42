// GCC's nested functions: variables that a function shares with them lie in one object, which GCC maps beside those that clauses name.
// What the region writes comes back, and what is present stays in use.
#include "check.h"

int main(void)
{
    int a[30], b[30], scale = 3;
    void fill(void)
    {
        for (int i = 0; i < 30; i++) {
            a[i] = i;
            b[i] = scale;
        }
    }
    fill();
#pragma acc parallel loop copy(a)
    for (int i = 0; i < 30; i++)
        a[i] = a[i] * scale + 1;
    CHECK_EQ(a[29], 88);
#pragma acc data copy(a)
    {
#pragma acc parallel loop present(a) copyin(b)
        for (int i = 0; i < 30; i++)
            a[i] += b[i];
#pragma acc kernels loop present(a) copy(b)
        for (int i = 0; i < 30; i++)
            b[i] += a[i];
        CHECK_EQ(b[29], 94);
        CHECK_EQ(a[29], WANT(88, 91));
    }
    CHECK_EQ(a[29], 91);
    for (scale = 0; scale < 10; scale++) {
#pragma acc parallel loop copy(a) async(1)
        for (int i = 0; i < 30; i++)
            a[i]++;
    }
#pragma acc wait(1)
    CHECK_EQ(scale, 10);
    CHECK_EQ(a[0], 14);
    return pass();
}
