// num_gangs, num_workers and vector_length, constant and computed; results must not depend on them (2.5.10 to 2.5.12).
#include "check.h"

static long sum_with(int gangs, int workers, int lanes, int queue)
{
    long sum = 0;
#pragma acc parallel loop num_gangs(gangs) num_workers(workers) vector_length(lanes) reduction(+ : sum) async(queue) wait(queue, 4)
    for (int i = 1; i <= 1000; i++)
        sum += i;
#pragma acc wait(queue)
    return sum;
}

int main(void)
{
    long sum = 0;
#pragma acc parallel loop num_gangs(10) num_workers(4) vector_length(64) reduction(+ : sum)
    for (int i = 1; i <= 1000; i++)
        sum += i;
    CHECK_EQ(sum, 500500);
    CHECK_EQ(sum_with(1, 1, 32, 1), 500500);
    CHECK_EQ(sum_with(70000, 2, 32, 2), 500500);
    CHECK_EQ(sum_with(3, 8, 64, 70000), 500500);
    return pass();
}
