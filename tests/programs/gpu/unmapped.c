// A pointer without a clause with ACCORD_UNMAPPED=map: a GPU that reaches the program's memory uses it as it is, others get a copy of its
// block. With the driver that tests bring along, cluster_kernels.c has what runs in the region's place.
// RUN env=ACCORD_UNMAPPED=map
#include "check.h"

enum { N = 1000 };

static void work(int *p, unsigned long long *seen)
{
    unsigned long long at;
#pragma acc parallel copyout(at)
    {
        at = (unsigned long long)p;
        for (int i = 0; i < N; i++)
            p[i] += 1;
    }
    *seen = at;
}

int main(void)
{
    int *p = malloc(N * sizeof *p);
    for (int round = 0; round < 3; round++) {
        unsigned long long seen = 0;
        for (int i = 0; i < N; i++)
            p[i] = round + i;
        work(p, &seen);
        for (int i = 0; i < N; i++)
            CHECK_EQ(p[i], round + i + 1);
        printf("round %d: %s\n", round, seen == (unsigned long long)p ? "as it is" : "a copy");
    }
    free(p);
    return pass();
}
