// acc_shutdown drops what is present; the device can be used again (3.2.8).
#include "check.h"

int main(void)
{
    int a[10] = {0};
    acc_device_t type = device_type();
    acc_copyin(a, sizeof a);
#pragma acc parallel loop present(a) async(1)
    for (int i = 0; i < 10; i++)
        a[i] = 1;
#pragma acc wait
    acc_shutdown(type);
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
#pragma acc parallel loop copy(a)
    for (int i = 0; i < 10; i++)
        a[i] = i;
    for (int i = 0; i < 10; i++)
        CHECK_EQ(a[i], i);
    return pass();
}
