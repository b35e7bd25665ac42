// Says how many devices there are.
#include "check.h"

int main(void)
{
    printf("devices=%d\n", device_count());
    return pass();
}
