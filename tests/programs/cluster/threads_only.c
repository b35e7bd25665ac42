/* OpenMP and no OpenACC: threads, and a target region on the host. */
#include <stdio.h>

int main(void)
{
    int sum = 0, there = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 10; i++)
        sum += i;
#pragma omp target map(from : there) map(to : sum)
    there = sum;
    printf("%d %d\n", sum, there);
    return 0;
}
