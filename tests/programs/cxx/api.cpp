// The routines called from C++, with the header's C++ forms.
#include "check.h"

int main()
{
    int a[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    acc_init(acc_device_default);
    CHECK(acc_get_num_devices(acc_get_device_type()) >= 1);
    void *d = acc_copyin(a, sizeof a);
    CHECK(d != nullptr);
    CHECK_EQ(acc_on_device(acc_device_host), 1);
#pragma acc parallel loop present(a)
    for (int i = 0; i < 10; i++)
        a[i] *= 3;
    acc_copyout(a, sizeof a);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(a[i], 3 * (i + 1));
    return pass();
}
