// A clause that names a C pointer copies the address and not the array: the region ends where it uses that, and the message says whose it is.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/parallel \(message_copied_pointer\.c:19, scale\)/
// EXPECT stderr=/factors \(message_copied_pointer\.c:\d+, \w+\) was copied as an address, without what is there/
// EXPECT stderr=/name what a pointer points to, with its length, as copy\(p\[0:n\]\) instead of copy\(p\)/
#include "check.h"

static int calls;

__attribute__((noinline)) static double scale(
    double *values,
    double *factors,
    int n)
{
#pragma acc data copyin(factors) copy(values[0:n])
    {
        /* Both are present by now. */
#pragma acc parallel loop
        for (int i = 0; i < n; i++)
            values[i] *= factors[i];
    }
    calls++;
    return values[n / 2] + factors[0];
}

int main(void)
{
    double *values = calloc(1000, sizeof *values);
    double *factors = calloc(1000, sizeof *factors);
    double sum = scale(values, factors, 1000);
    printf("FAIL: the region came back %f %d\n", sum, calls);
    free(values);
    free(factors);
    return 0;
}
