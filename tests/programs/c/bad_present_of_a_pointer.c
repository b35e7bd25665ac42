// `present(t)` of a pointer to absent data: the message says what is absent, and what to write.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/\bt\b.*not present.*nor is anything at 0x[0-9a-f]+, if it is a pointer \[acc_error_not_present\].*present\(p\[0:n\]\)/
#include "check.h"

int main(void)
{
    int *t = malloc(40);
#pragma acc parallel present(t)
    t[0] = 1;
    printf("FAIL: the region ran\n");
    return 0;
}
