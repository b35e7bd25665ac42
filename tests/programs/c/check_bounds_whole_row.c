// ACCORD_CHECK=bounds: a region writes one row too many of an array of rows.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/region main\._omp_fn\.\d+ \(.*check_bounds_whole_row\.c:\d+, .*ended with SIGSEGV/
// EXPECT stderr=/no data is there; it is \d+ bytes behind the end of the nearest, the 640000 bytes of grid \(check_bounds_whole_row\.c:\d+(, main)?\)/
// RUN env=ACCORD_CHECK=bounds
// BUILD offload=no
// BUILD flags=-g
#include "check.h"

#define ROWS 100
#define COLUMNS 800

static double grid[ROWS][COLUMNS], other[ROWS][COLUMNS];

int main(void)
{
    int rows = ROWS + acc_get_num_devices(acc_device_host);
#pragma acc data copyin(grid, other)
    {
#pragma acc parallel loop present(grid, other)
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++)
                grid[i][j] = other[i][j] + 1;
#pragma acc parallel loop present(grid)
        for (int i = ROWS - 1; i < rows; i++)
            for (int j = 0; j < COLUMNS; j++)
                grid[i][j] = i;
    }
    printf("FAIL: the region came back\n");
    return 0;
}
