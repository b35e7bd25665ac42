// Computes on its device, one step for each line of its input, in memory that stays there. At the end of the input it checks the
// values, and that the memory has kept its address.
#include "check.h"

#define N 100000

static void step(unsigned *values, int by)
{
#pragma acc parallel loop present(values[0 : N])
    for (int i = 0; i < N; i++)
        values[i] = values[i] * 3 + by;
}

int main(void)
{
    unsigned *values = malloc(N * sizeof *values);
    char line[16];
    int steps = 0;
    for (int i = 0; i < N; i++)
        values[i] = i;
#pragma acc enter data copyin(values[0 : N])
    void *address = acc_deviceptr(values);
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        step(values, ++steps);
        printf("step %d\n", steps);
        fflush(stdout);
    }
    CHECK(acc_deviceptr(values) == address);
#pragma acc exit data copyout(values[0 : N])
    for (int i = 0; i < N; i++) {
        unsigned want = i;
        for (int by = 1; by <= steps; by++)
            want = want * 3 + by;
        CHECK_EQ(values[i], want);
    }
    free(values);
    printf("%d steps are right\n", steps);
    return pass();
}
