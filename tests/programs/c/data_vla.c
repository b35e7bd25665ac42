// Arrays of run-time size in clauses and implicitly.
#include "check.h"

static void work(int n, int m)
{
    int v[n], grid[n][m];
    for (int i = 0; i < n; i++)
        v[i] = i;
#pragma acc parallel loop copy(v) copyout(grid)
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < m; j++)
            grid[i][j] = v[i] * 100 + j;
        v[i] = -v[i];
    }
    for (int i = 0; i < n; i++) {
        CHECK_EQ(v[i], -i);
        for (int j = 0; j < m; j++)
            CHECK_EQ(grid[i][j], 100 * i + j);
    }
}

int main(void)
{
    work(5, 7);
    work(40, 3);
    work(1, 1);
    return pass();
}
