// acc_memcpy_d2d_async in a queue of the source, after and before regions of that queue (3.2.30).
// EXPECT device-memory
#include "check.h"

enum { N = 200000 };
static int src[N], dst[N];

int main(void)
{
    acc_device_t type = device_type();
    int n = device_count();
    CHECK(acc_memcpy_d2d_async != NULL);
    CHECK(separate());
    for (int d = 0; d < n; d++) {
        acc_set_device_num(d, type);
#pragma acc enter data create(src, dst)
    }
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++) {
            if (from == to)
                continue;
            acc_set_device_num(from, type);
#pragma acc parallel loop present(src) async(3)
            for (int i = 0; i < N; i++)
                src[i] = from * 1000000 + to * 100 + i % 100;
            acc_memcpy_d2d_async(dst, src, sizeof dst, to, from, 3);
#pragma acc parallel loop present(src) async(3) /* after the copy has read it */
            for (int i = 0; i < N; i++)
                src[i] = -7;
#pragma acc wait(3) /* includes the arrival */
            acc_set_device_num(to, type);
#pragma acc parallel loop present(dst) async(4)
            for (int i = 0; i < N; i++)
                dst[i] += 1;
#pragma acc update self(dst) async(4)
#pragma acc wait(4)
            for (int i = 0; i < N; i++)
                CHECK_EQ(dst[i], from * 1000000 + to * 100 + i % 100 + 1);
        }
    for (int d = 0; d < n; d++) {
        acc_set_device_num(d, type);
#pragma acc wait
#pragma acc exit data delete(src, dst)
    }
    return pass();
}
