// Messages name the variable, where it is declared, and the line of the call: a local array of the function that has the construct.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/parallel \(message_not_present\.c:15, main\): grid \(message_not_present\.c:12, main\) is not present on dev\d/
// EXPECT stderr=/acc_error_not_present/
#include "check.h"

int main(void)
{
    int other[10] = {0};
#pragma acc enter data copyin(other)
    int grid[100] = {0};
    grid[1] = other[0];
    /* The line of the call is the directive's. */
#pragma acc parallel loop present(grid)
    for (int i = 0; i < 100; i++)
        grid[i] = 1;
    printf("FAIL: the region ran\n");
    return grid[1];
}
