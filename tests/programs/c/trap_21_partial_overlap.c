// A range that sticks out of a present one is an error, never a second mapping (2.6.3).
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_error_partly_present/
#include "check.h"

int main(void)
{
    int a[100] = {0};
#pragma acc enter data copyin(a[0:50])
#pragma acc enter data copyin(a[25:50])
    printf("FAIL: the second range was mapped\n");
    return 0;
}
