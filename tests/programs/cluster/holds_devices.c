// Holds its devices until its input ends.
#include "check.h"

int main(void)
{
    int value = 0;
    acc_device_t type = device_type();
#pragma acc parallel loop copy(value)
    for (int i = 0; i < 1; i++)
        value = 7;
    CHECK_EQ(value, 7);
    printf("has %d\n", acc_get_num_devices(type));
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return pass();
}
