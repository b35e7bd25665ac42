// update device of more than is present.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_error_(partly|not)_present/
#include "check.h"

int main(void)
{
    int a[100] = {0};
    acc_create(a, 50 * sizeof *a);
    acc_update_device(a, sizeof a);
    printf("FAIL: more than is present was updated\n");
    return 0;
}
