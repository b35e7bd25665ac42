// ACCORD_CHECK=bounds: a region reads the element behind the end of an array, where no memory is mapped.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/region sum\._omp_fn\.\d+ \(.*check_bounds_read_behind\.c:\d+, .*ended with SIGSEGV/
// EXPECT stderr=/no data is there; it is 0 bytes behind the end of the nearest, the 8192 bytes of (a|array) \(check_bounds_read_behind\.c:\d+, (sum|main)\)/
// RUN env=ACCORD_CHECK=bounds
// BUILD offload=no
// BUILD flags=-g
#include "check.h"

#define N 1024

/* Kept from being inlined, and in use after the call, so that its parameter is somewhere. */
__attribute__((noinline)) static double sum(double *a, int n, int last)
{
    double s = 0;
#pragma acc parallel loop copyin(a[0:n]) reduction(+:s)
    for (int i = 0; i <= last; i++)
        s += a[i];
    return s + 0 * a[0];
}

int main(void)
{
    double *array = aligned_alloc(64, N * sizeof *array);
    for (int i = 0; i < N; i++)
        array[i] = 1;
    CHECK_EQ(sum(array, N, N - 1), N);
    printf("FAIL: the region came back %g\n", sum(array, N, N));
    free(array);
    return 0;
}
