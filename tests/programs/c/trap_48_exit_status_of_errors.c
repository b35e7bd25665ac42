// A run-time error ends the program with status 1, after its buffered output is out.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stdout=/said before the error/
// EXPECT stderr=/acc_error_not_present/
#include "check.h"

int main(void)
{
    int a[10] = {0};
    printf("said before the error\n");
#pragma acc update self(a)
    printf("FAIL: absent data was updated\n");
    return 0;
}
