// acc_memcpy_d2d of few bytes and of many between every two devices, in order with what comes before and after (3.2.30).
// EXPECT device-memory
#include "check.h"

enum { N = 5 << 18, EDGE = 64 };
static int src[N], dst[N];

static int value(int device, int i) { return (device + 1) * 10000000 + i; }

int main(void)
{
    static const int counts[] = { 1, 1000, 1024, 1025, 4096, 4097, 16383, 16384, 16385, 65536, 300001, N - 2 * EDGE };
    acc_device_t type = device_type();
    int n = device_count();
    for (int d = 0; d < n; d++) {
        acc_set_device_num(d, type);
        for (int i = 0; i < N; i++)
            src[i] = value(d, i), dst[i] = -1;
        acc_copyin(src, sizeof src);
        acc_copyin(dst, sizeof dst);
    }
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++)
            for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++) {
                int count = counts[c], shift = (int)c + 1;
                acc_memcpy_d2d(dst + EDGE, src + shift, count * sizeof *dst, to, from);
                // What comes after it must not come before it, and neither must its end.
                acc_set_device_num(from, type);
                src[shift] = 7;
                acc_update_device(src + shift, sizeof *src);
                src[shift] = value(from, shift);
                acc_update_device(src + shift, sizeof *src);
                acc_set_device_num(to, type);
                acc_update_self(dst, sizeof dst);
                for (int i = 0; i < N; i++) {
                    CHECK_EQ(dst[i], i >= EDGE && i < EDGE + count ? value(from, i - EDGE + shift) : -1);
                    dst[i] = -1;
                }
                acc_update_device(dst, sizeof dst);
            }
    for (int d = 0; d < n; d++) {
        acc_set_device_num(d, type);
        acc_delete(src, sizeof src);
        acc_delete(dst, sizeof dst);
    }
    return pass();
}
