// declare in a function: the lifetime is the function's (2.13).
#include "check.h"

static int work(int k)
{
    int loc[32], v[4] = {k, k, k, k}, sum = 0;
#pragma acc declare create(loc) copyin(v)
#pragma acc update device(v) /* GCC 12 never lets go of v: at the next call the same place is present already */
#pragma acc parallel loop
    for (int i = 0; i < 32; i++)
        loc[i] = i * v[i % 4];
#pragma acc parallel loop reduction(+ : sum)
    for (int i = 0; i < 32; i++)
        sum += loc[i];
    return sum;
}

int main(void)
{
    CHECK_EQ(work(1), 496);
    CHECK_EQ(work(2), 992);
    CHECK_EQ(work(3), 1488);
    return pass();
}
