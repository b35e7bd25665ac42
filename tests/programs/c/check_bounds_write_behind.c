// ACCORD_CHECK=bounds: a region writes the element behind the end of an array whose end is not that of a cache line: no page ends there, but the bytes are compared.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/parallel \(check_bounds_write_behind\.c:1[3-7], add\) on dev\d+ \(node .*: region add\._omp_fn\.\d+ has written outside of data: 8 bytes beside (a|array) \(check_bounds_write_behind\.c:\d+, (add|main)\), from 0 bytes behind the end of its 8000 bytes on \[acc_error_execution\]; check the region's indices/
// RUN env=ACCORD_CHECK=bounds
// BUILD offload=no
// BUILD flags=-g
#include "check.h"

#define N 1000

/* Kept from being inlined, and in use after the call, so that its parameter is somewhere. */
__attribute__((noinline)) static double add(double *a, int n, int last)
{
#pragma acc parallel loop copy(a[0:n])
    for (int i = 0; i <= last; i++)
        a[i] += 1;
    return a[0];
}

int main(void)
{
    /* 16 bytes behind a multiple of 64: 48 bytes are left to the end of the last cache line. */
    double *block = aligned_alloc(64, (N + 8) * sizeof *block), *array = block + 2;
    for (int i = 0; i < N; i++)
        array[i] = i;
    CHECK_EQ(add(array, N, N - 1), 1);
    printf("FAIL: the region came back %g\n", add(array, N, N));
    free(block);
    return 0;
}
