// `update self(t)` of a pointer to present data: the message says what to write.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/\bt\b.*not present.*but it points to present data at 0x[0-9a-f]+ \[acc_error_not_present\].*write p\[0:n\] in place of p/
#include "check.h"

int main(void)
{
    int *t = malloc(40);
#pragma acc enter data copyin(t[0:10])
#pragma acc update self(t)
    printf("FAIL: the update was taken\n");
    return 0;
}
