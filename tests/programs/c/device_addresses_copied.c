// acc_memcpy_device between two devices' addresses is the copy that was meant, from whichever device (3.2.28).
// BUILD linked
// EXPECT device-memory
#include "check.h"

extern void acc_memcpy_device(void *dst, void *src, size_t bytes);
extern void acc_memcpy_device_async(void *dst, void *src, size_t bytes, int queue);

enum { N = 300000 };
static int in[N], out[N];

int main(void)
{
    acc_device_t type = device_type();
    int *p[2];
    for (int d = 0; d < 2; d++) {
        acc_set_device_num(d, type);
        p[d] = acc_malloc(sizeof in);
    }
    for (int current = 0; current < 2; current++)
        for (int from = 0; from < 2; from++)
            for (int asynchronous = 0; asynchronous < 2; asynchronous++) {
                int to = 1 - from, mark = 1000000 * (1 + current * 4 + from * 2 + asynchronous);
                for (int i = 0; i < N; i++)
                    in[i] = mark + i;
                acc_set_device_num(from, type);
                acc_memcpy_to_device(p[from], in, sizeof in);
                acc_set_device_num(current, type);
                if (asynchronous) {
                    acc_memcpy_device_async(p[to] + 5, p[from] + 3, (N - 5) * sizeof *in, 4);
                    acc_set_device_num(from, type);
                    acc_wait(4);
                } else {
                    acc_memcpy_device(p[to] + 5, p[from] + 3, (N - 5) * sizeof *in);
                }
                acc_set_device_num(to, type);
                int *q = p[to];
                long wrong = 0;
#pragma acc parallel loop deviceptr(q) reduction(+ : wrong)
                for (int i = 5; i < N; i++)
                    wrong += q[i] != mark + i - 2;
                CHECK_EQ(wrong, 0);
                acc_memcpy_from_device(out, p[to], sizeof out);
                for (int i = 5; i < N; i++)
                    CHECK_EQ(out[i], mark + i - 2);
            }
    for (int d = 0; d < 2; d++) {
        acc_set_device_num(d, type);
        acc_free(p[d]);
    }
    return pass();
}
