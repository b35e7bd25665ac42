// ACCORD_UNMAPPED=map with a pointer to memory that is no known block, as of mmap or of an allocator that comes before libacc: the message names the
// pointer, and a remedy that applies.
// RUN env=ACCORD_UNMAPPED=map
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/it was given pointers that nothing maps: .*(values|pages) \(unmapped_no_block\.c:\d+, (store|main)\) \[acc_error_execution\]; write a data clause with the length, as copy\(a\[0:n\]\): ACCORD_UNMAPPED=map finds no block there/
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>

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
    double *pages = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    printf("FAIL: the region came back %g\n", store(pages, 1000));
    return pages[0] == 0;
}
