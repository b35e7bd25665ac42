// A data region ends on the device where it began, whatever device is current at its end (2.6.5).
#include "check.h"

int main(void)
{
    acc_device_t type = device_type();
    int n = device_count(), a[10] = {0}, other = n - 1;
    acc_set_device_num(0, type);
#pragma acc data copy(a)
    {
#pragma acc parallel loop present(a)
        for (int i = 0; i < 10; i++)
            a[i] = i;
        acc_set_device_num(other, type);
    }
    CHECK_EQ(acc_get_device_num(type), other);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(a[i], i);
    for (int d = 0; d < n; d++) {
        acc_set_device_num(d, type);
        CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    }
    return pass();
}
