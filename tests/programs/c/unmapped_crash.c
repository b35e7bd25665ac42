// A region that is given a pointer which nothing maps: the message names the pointer and both ways out.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_error_execution/
// EXPECT stderr=/it was given pointers that nothing maps: .*(values|heap) \(unmapped_crash\.c:\d+, (store|main)\)/
// EXPECT stderr=/copy\(a\[0:n\]\), or set ACCORD_UNMAPPED=map/
#include "check.h"

/* Kept from being inlined, and in use after the call, so that its parameter is somewhere. */
__attribute__((noinline)) static double store(double *values, int n)
{
#pragma acc parallel loop
    for (int i = 0; i < n; i++)
        values[i] = i;
    return values[n / 2];
}

int main(void)
{
    double *heap = malloc(1000 * sizeof *heap);
    double middle = store(heap, 1000);
    printf("FAIL: the region came back %f\n", middle);
    free(heap);
    return 0;
}
