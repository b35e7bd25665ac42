// num_gangs(0) and the like are replaced by what the device chooses.
#include "check.h"

static int run(int gangs, int workers, int lanes)
{
    int sum = 0;
#pragma acc parallel loop num_gangs(gangs) num_workers(workers) vector_length(lanes) reduction(+ : sum)
    for (int i = 0; i < 100; i++)
        sum += i;
    return sum;
}

int main(void)
{
    CHECK_EQ(run(0, 0, 0), 4950);
    CHECK_EQ(run(0, 1, 32), 4950);
    CHECK_EQ(run(5, 0, 32), 4950);
    return pass();
}
