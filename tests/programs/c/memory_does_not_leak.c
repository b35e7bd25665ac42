// A thousand rounds of data, regions and queues leave the device's free memory as it was.
// EXPECT device-memory
#include "check.h"

int main(void)
{
    enum { N = 1 << 16 };
    static int a[N], b[N];
    acc_device_t type = device_type();
    size_t before = 0;
    for (int round = 0; round < 1000; round++) {
#pragma acc data copyin(a) create(b)
        {
#pragma acc parallel loop present(a, b) async(round % 3)
            for (int i = 0; i < 16; i++)
                b[i] = a[i];
#pragma acc wait
        }
#pragma acc enter data create(a)
#pragma acc exit data delete(a)
        // On a GPU the driver takes some for a region that a queue has launched 100 times, once.
        if (round == 500)
            before = acc_get_property(0, type, acc_property_free_memory);
    }
    size_t after = acc_get_property(0, type, acc_property_free_memory);
    CHECK(before > 0);
    CHECK(after + (1 << 20) >= before);
    return pass();
}
