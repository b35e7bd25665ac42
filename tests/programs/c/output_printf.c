// What a region prints reaches the program's stdout.
// EXPECT stdout=/region says 0 1 2/
// EXPECT stdout=/PASS/
#include "check.h"

int main(void)
{
    printf("before\n");
    fflush(stdout);
#pragma acc serial
    {
        printf("region says %d %d %d\n", 0, 1, 2);
    }
    return pass();
}
