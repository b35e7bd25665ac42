// acc_free of the same address twice.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_free/
// EXPECT stderr=/acc_error_/
#include "check.h"

int main(void)
{
    void *d = acc_malloc(1000);
    acc_free(d);
    acc_free(d);
    printf("FAIL: freed twice\n");
    return 0;
}
