// Two files with static functions and variables of the same names, each with regions.
// BUILD with=second.c
#include "check.h"

int second_run(int x);

static int bias = 1;
#pragma acc declare copyin(bias)

static int run(int x)
{
    int got = -1;
#pragma acc parallel copyout(got)
    got = x + bias;
    return got;
}

int main(void)
{
    CHECK_EQ(run(10), 11);
    CHECK_EQ(second_run(10), 1010);
    CHECK_EQ(run(20), 21);
    return pass();
}
