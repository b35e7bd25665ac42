// ACCORD_UNMAPPED=map does not follow pointers inside of the blocks that it maps: a region that does so crashes, and the
// message says why.
// RUN env=ACCORD_UNMAPPED=map
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/it got copies of the blocks that these point to: /
// EXPECT stderr=/pointers inside of such blocks are not followed/
#include "check.h"

int main(void)
{
    double **rows = malloc(10 * sizeof *rows);
    for (int i = 0; i < 10; i++)
        rows[i] = calloc(10, sizeof **rows);
#pragma acc parallel loop
    for (int i = 0; i < 10; i++)
        rows[i][i] = i;
    printf("FAIL: the region came back %f\n", rows[9][9]);
    return 0;
}
