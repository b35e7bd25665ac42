// An `update` of whole declare variables, of which GCC passes none, ends the program instead of leaving old values (2.14.4).
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/declare_update_dropped\.c:17.*whole declare variables only.*accord cc/
#include "check.h"

int k, g[40];
#pragma acc declare create(g, k)

int main(void)
{
    int whole = 0, other = 2;
    k = 5;
#pragma acc update device(k, g) if (other == 1)
#pragma acc update device(g[0:40])
    fflush(stdout);
#pragma acc update device(k, g) async(1)
#pragma acc wait(1)
#pragma acc parallel copyout(whole)
    whole = k;
    /* A compiler that passes them is right; so is libgomp's way of leaving them out. */
    printf("%d\n", whole);
    return 1;
}
