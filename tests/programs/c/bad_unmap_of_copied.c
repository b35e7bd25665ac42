// acc_unmap_data of data that acc_map_data did not map.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_unmap_data/
#include "check.h"

int main(void)
{
    int a[10] = {0};
    acc_copyin(a, sizeof a);
    acc_unmap_data(a);
    printf("FAIL: unmapped copied data\n");
    return 0;
}
