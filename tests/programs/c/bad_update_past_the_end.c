// update of a section that reaches past the array that is present: an error with the variable and the line, as C has no sections with gaps (2.14.4).
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/update/
// EXPECT stderr=/\bcells\b/
// EXPECT stderr=/bad_update_past_the_end\.c:22/
// EXPECT stderr=/acc_error_partly_present/
#include "check.h"

int main(void)
{
    static int cells[200];
    acc_create(cells, 100 * sizeof *cells);
#pragma acc update device(cells[50:50])
#pragma acc update device(cells[0:100])
#pragma acc parallel loop present(cells[0:100])
    for (int i = 0; i < 100; i++)
        cells[i] = i;
#pragma acc update self(cells[50:50])
    CHECK_EQ(cells[99], 99);
    // One too many, and no longer than the array.
#pragma acc update self(cells[1:100])
    printf("FAIL: the section was cut\n");
    return 0;
}
