// ACCORD_UNMAPPED=map says once per place which pointer it mapped for, and which clause would do it.
// RUN env=ACCORD_UNMAPPED=map
// EXPECT device-memory
// EXPECT stderr=/^accord: unmapped_notice\.c:\d+, fill: (values|data) \(unmapped_notice\.c:\d+, (fill|main)\): its block of 8000 bytes/
// EXPECT stderr=/write copy\((values|data)\[0:LENGTH\]\)/
#include "check.h"

__attribute__((noinline)) static double fill(double *values, int n, double value)
{
#pragma acc parallel loop
    for (int i = 0; i < n; i++)
        values[i] = value;
    return values[n - 1];
}

int main(void)
{
    double *data = malloc(1000 * sizeof *data);
    for (int k = 0; k < 10; k++)
        CHECK(fill(data, 1000, k) == k);
    free(data);
    return pass();
}
