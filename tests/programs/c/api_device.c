// Device routines: type, number, init, shutdown, on_device (3.2.1 to 3.2.8, 3.2.15).
// RUN first-device
#include "check.h"

int main(void)
{
    CHECK_EQ(acc_get_num_devices(acc_device_host), 1);
    CHECK_EQ(acc_get_num_devices(acc_device_none), 0);
    CHECK_EQ(acc_get_num_devices(acc_device_radeon), 0);
    acc_init(acc_device_default);
    acc_device_t type = acc_get_device_type();
    CHECK(type != acc_device_none && type != acc_device_default && type != acc_device_current);
    int n = acc_get_num_devices(type);
    CHECK(n >= 1);
    CHECK_EQ(acc_get_num_devices(acc_device_default) >= 1, 1);
    CHECK_EQ(acc_get_device_num(type), 0);
    for (int d = 0; d < n; d++) {
        acc_set_device_num(d, type);
        CHECK_EQ(acc_get_device_num(type), d);
        CHECK_EQ(acc_get_device_type(), type);
    }
    acc_set_device_num(0, acc_device_default);
    CHECK_EQ(acc_get_device_num(acc_device_default), 0);
    if (separate()) { /* a name of OpenACC 3.x that libgomp 12 declares but refuses */
        acc_set_device_num(0, acc_device_current);
        CHECK_EQ(acc_get_device_num(acc_device_current), 0);
    }

    acc_set_device_type(acc_device_host);
    CHECK_EQ(acc_get_device_type(), acc_device_host);
    int x = 1;
#pragma acc parallel
    x = 2; /* firstprivate */
    CHECK_EQ(x, 1);
#pragma acc parallel copy(x)
    x = 3;
    CHECK_EQ(x, 3);
    CHECK(acc_copyin(&x, sizeof x) == &x); /* the host shares its own memory */
    CHECK_EQ(acc_is_present(&x, sizeof x), 1);
    acc_delete(&x, sizeof x);
    acc_set_device_type(type);
    CHECK_EQ(acc_get_device_type(), type);
    CHECK_EQ(acc_on_device(acc_device_host), 1);
    CHECK_EQ(acc_on_device(acc_device_not_host), 0);
    CHECK_EQ(acc_on_device(acc_device_nvidia), 0);

    acc_shutdown(type);
    acc_init(type); /* a device can be used again */
    int y = 1;
#pragma acc parallel copy(y)
    y += 1;
    CHECK_EQ(y, 2);
    acc_shutdown(type);
    return pass();
}
