// acc_copyin of a range that is present in part.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_copyin/
// EXPECT stderr=/acc_error_partly_present/
#include "check.h"

int main(void)
{
    int a[100] = {0};
    acc_copyin(a + 50, 10 * sizeof *a);
    acc_copyin(a, sizeof a);
    printf("FAIL: the range was copied in\n");
    return 0;
}
