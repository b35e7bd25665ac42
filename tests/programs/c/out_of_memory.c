// More than the device has: an error with that name, or NULL from acc_malloc (3.2.16).
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_error_out_of_memory/
#include "check.h"

int main(void)
{
    int a[2] = {0};
    CHECK(acc_malloc((size_t)1 << 60) == NULL);
    acc_create(a, (size_t)1 << 45);
    printf("FAIL: 32 TiB were created\n");
    return 0;
}
