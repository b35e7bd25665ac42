// Rows of a two-dimensional array.
#include "check.h"

static double grid[20][30];

int main(void)
{
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 30; j++)
            grid[i][j] = i;
#pragma acc data copy(grid[4:8][0:30])
    {
        CHECK_EQ(acc_is_present(&grid[4][0], 8 * sizeof grid[0]), 1);
        CHECK_EQ(acc_is_present(&grid[3][0], sizeof grid[0]), WANT(0, 1));
#pragma acc parallel loop collapse(2) present(grid[4:8][0:30])
        for (int i = 4; i < 12; i++)
            for (int j = 0; j < 30; j++)
                grid[i][j] += j;
    }
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 30; j++)
            CHECK_EQ(grid[i][j], i >= 4 && i < 12 ? i + j : i);
    return pass();
}
