// acc_map_data of a range that is present already.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_map_data/
// EXPECT stderr=/acc_error_present/
#include "check.h"

int main(void)
{
    int a[10] = {0};
    void *d = acc_malloc(sizeof a);
    acc_map_data(a, d, sizeof a);
    acc_map_data(a, d, sizeof a);
    printf("FAIL: mapped twice\n");
    return 0;
}
