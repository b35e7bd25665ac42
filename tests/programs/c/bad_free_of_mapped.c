// acc_free of memory that is in the present table.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_free/
// EXPECT stderr=/acc_error_/
#include "check.h"

int main(void)
{
    int a[10] = {0};
    void *d = acc_copyin(a, sizeof a);
    acc_free(d);
    printf("FAIL: freed present data\n");
    return 0;
}
