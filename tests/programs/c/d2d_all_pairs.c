// acc_memcpy_d2d between every two devices, a device and itself included (3.2.30).
// EXPECT device-memory
#include "check.h"

enum { N = 5000 };
static int src[N], dst[N];

int main(void)
{
    acc_device_t type = device_type();
    int n = device_count();
    CHECK(acc_memcpy_d2d != NULL);
    CHECK(separate());
    for (int d = 0; d < n; d++) {
        acc_set_device_num(d, type);
#pragma acc enter data create(src, dst)
#pragma acc parallel loop present(src)
        for (int i = 0; i < N; i++)
            src[i] = (d + 1) * 100000 + i;
    }
    acc_set_device_num(0, type);
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++) {
            acc_set_device_num(to, type);
#pragma acc parallel loop present(dst)
            for (int i = 0; i < N; i++)
                dst[i] = -1;
            acc_set_device_num(0, type);
            acc_memcpy_d2d(dst + 10, src + 20, 1000 * sizeof *dst, to, from);
            acc_set_device_num(to, type);
#pragma acc update self(dst)
            for (int i = 0; i < N; i++)
                CHECK_EQ(dst[i], i >= 10 && i < 1010 ? (from + 1) * 100000 + i + 10 : -1);
        }
    acc_memcpy_d2d(dst, src, 0, 0, n - 1);
    acc_memcpy_d2d(NULL, NULL, 0, 0, n - 1);
    for (int d = 0; d < n; d++) {
        acc_set_device_num(d, type);
#pragma acc exit data delete(src, dst)
    }
    return pass();
}
