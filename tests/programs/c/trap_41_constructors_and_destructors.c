// Regions in a constructor, in an atexit function and in a destructor.
// EXPECT stdout=/constructor 42/
// EXPECT stdout=/atexit 43/
// EXPECT stdout=/destructor 44/
#include "check.h"

static int compute(int x)
{
    int got = -1;
#pragma acc parallel copyout(got)
    got = x;
    return got;
}

__attribute__((constructor)) static void early(void)
{
    printf("constructor %d\n", compute(42));
}

static void late(void)
{
    printf("atexit %d\n", compute(43));
}

__attribute__((destructor)) static void last(void)
{
    printf("destructor %d\n", compute(44));
    fflush(stdout);
}

int main(void)
{
    atexit(late);
    CHECK_EQ(compute(1), 1);
    return pass();
}
