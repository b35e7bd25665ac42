// Calls for which the specification names no error do nothing: acc_init of what is in use, acc_shutdown of what is not (3.2.7, 3.2.8),
// detach of what is not attached (2.7.2), test of and wait for queues that were never used (3.2.9, 3.2.10).
// EXPECT device-memory
#include "check.h"

struct box {
    double *p;
    int n;
};

int main(void)
{
    acc_device_t type = acc_get_device_type();
    acc_shutdown(type);
    CHECK(acc_async_test(9) && acc_async_test_all());
    acc_wait(33);
    acc_wait_async(34, 35);
    acc_init(type);
    acc_init(type);
    acc_shutdown(type);
    acc_shutdown(type);
    double *a = malloc(80);
    struct box b = {a, 10};
    acc_attach((void **)&b.p);
    acc_detach((void **)&b.p);
    acc_copyin(&b, sizeof b);
    acc_copyin(a, 80);
    acc_attach((void **)&b.p);
    for (int k = 0; k < 3; k++)
        acc_detach((void **)&b.p);
#pragma acc exit data detach(b.p)
    acc_attach((void **)&b.p);
    size_t on_device = 0;
#pragma acc parallel present(b) copyout(on_device)
    on_device = (size_t)b.p;
    CHECK(on_device == (size_t)acc_deviceptr(a));
#pragma acc data copyin(a[0:10])
    acc_shutdown(type);
    CHECK(!acc_is_present(a, 80) && !acc_is_present(&b, sizeof b));
    acc_copyin(a, 80);
    CHECK(acc_is_present(a, 80));
    acc_delete(a, 80);
    return pass();
}
