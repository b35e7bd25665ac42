// ACCORD_UNMAPPED=map: `update` and `present` of memory that was never mapped, as programs for unified memory have them, and
// regions that two threads run on the halves of one block.
// BUILD flags=-fopenmp
// BUILD offload=no
// RUN env=ACCORD_UNMAPPED=map
// EXPECT device-memory
#include "check.h"

enum { N = 20000 };

static void raise_by(double *a, int n, int by, int queue)
{
#pragma acc parallel loop async(queue)
    for (int i = 0; i < n; i++)
        a[i] += by;
#pragma acc wait(queue)
}

int main(void)
{
    double *a = malloc(N * sizeof *a);
    for (int i = 0; i < N; i++)
        a[i] = i;
#pragma acc update device(a[0:N])
#pragma acc parallel loop present(a[0:N])
    for (int i = 0; i < N; i++)
        a[i] += 1;
#pragma acc update self(a[0:N])
    for (int i = 0; i < N; i++)
        CHECK(a[i] == i + 1);

#pragma omp parallel for num_threads(2) schedule(static, 1)
    for (int half = 0; half < 2; half++) {
        double *mine = a + half * (N / 2);
        for (int k = 0; k < 10; k++)
            raise_by(mine, N / 2, half + 1, half);
    }
    for (int i = 0; i < N; i++)
        CHECK(a[i] == i + 1 + 10 * (1 + i / (N / 2)));
    free(a);
    return pass();
}
