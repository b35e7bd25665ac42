// OpenMP host threads, each driving a device of its own, all at the same time.
// BUILD flags=-fopenmp
// BUILD offload=no
#include "check.h"
#include <omp.h>

enum { N = 10000, THREADS = 4 };

static double work(int me)
{
    double *v = malloc(N * sizeof *v), sum = 0;
    for (int i = 0; i < N; i++)
        v[i] = i;
#pragma acc data copyin(v[0:N])
    {
        for (int round = 0; round < 10; round++) {
#pragma acc parallel loop present(v[0:N]) async(1)
            for (int i = 0; i < N; i++)
                v[i] += me;
        }
#pragma acc wait(1)
#pragma acc parallel loop present(v[0:N]) reduction(+ : sum)
        for (int i = 0; i < N; i++)
            sum += v[i];
    }
    free(v);
    return sum;
}

int main(void)
{
    static double sums[THREADS];
    acc_device_t type = device_type();
    int n = device_count();
#pragma omp parallel num_threads(THREADS)
    {
        int me = omp_get_thread_num();
        acc_set_device_num(me % n, type);
        sums[me] = work(me);
    }
    for (int t = 0; t < THREADS; t++)
        CHECK_EQ(sums[t], N * (N - 1.0) / 2 + 10.0 * t * N);
    return pass();
}
