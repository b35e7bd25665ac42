// A present clause for absent data.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/parallel/
// EXPECT stderr=/acc_error_not_present/
#include "check.h"

int main(void)
{
    int a[100] = {0};
#pragma acc parallel loop present(a)
    for (int i = 0; i < 100; i++)
        a[i] = 1;
    printf("FAIL: the region ran\n");
    return 0;
}
