// A region that writes far beyond all data is stopped: the message names region, line, the array that is nearest, and how far that is.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/beyond\._omp_fn\.\d+ \(.*out_of_bounds\.c:1[345], .*ended with SIGSEGV/
// EXPECT stderr=/no data is there; it is \d+ bytes behind the end of the nearest, the 8000 bytes of a(rray)? \(out_of_bounds\.c:\d+, (beyond|main)\)/
// EXPECT stderr=/acc_error_execution\]; check the region's indices/
// BUILD offload=no
#include "check.h"

/* Kept from being inlined, and in use after the call, so that its parameter is somewhere. */
__attribute__((noinline)) static double beyond(double *a, int n, int last)
{
#pragma acc parallel loop copy(a[0:n])
    for (int i = 0; i <= last; i++)
        a[i] += 1;
    return a[0];
}

int main(void)
{
    int n = 1000;
    double *array = calloc(n, sizeof *array);
    CHECK_EQ(beyond(array, n, n - 1), 1);
    printf("FAIL: the region came back %g\n", beyond(array, n, 3000 * n));
    free(array);
    return 0;
}
