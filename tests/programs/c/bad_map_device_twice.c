// Device memory that is one array's can't be another's too (3.2.21).
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_map_data.*device address/
// EXPECT stderr=/acc_error_present/
#include "check.h"

int main(void)
{
    static int a[64], b[64], c[64];
    char *d = acc_malloc(2 * sizeof a);
    acc_map_data(a, d, sizeof a);
    acc_map_data(b, d + sizeof a, sizeof b); /* beside it */
    acc_unmap_data(b);
    acc_map_data(b, d + sizeof a, sizeof b); /* again */
    acc_unmap_data(a);
    acc_map_data(a, d, sizeof a);
    printf("so far so good\n");
    fflush(stdout);
    acc_map_data(c, d + sizeof a - 4, sizeof c);
    printf("FAIL: mapped twice\n");
    return 0;
}
