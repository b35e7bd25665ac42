// acc_malloc, acc_free and the memcpy routines (3.2.16, 3.2.17, 3.2.26, 3.2.27).
#include "check.h"

int main(void)
{
    enum { N = 3000 };
    static int out[N], in[N];
    for (int i = 0; i < N; i++)
        in[i] = i * 3;
    int *d = acc_malloc(sizeof in);
    CHECK(d != NULL);
    acc_memcpy_to_device(d, in, sizeof in);
    acc_memcpy_from_device(out, d, sizeof out);
    CHECK(memcmp(in, out, sizeof in) == 0);
    memset(out, 0, sizeof out);
    acc_memcpy_from_device(out + 1, d + 5, 10 * sizeof *d); /* inside the block */
    for (int i = 0; i < 10; i++)
        CHECK_EQ(out[1 + i], in[5 + i]);
    acc_memcpy_to_device(d, in, 0);
    acc_memcpy_from_device(out, d, 0);
    memset(out, 0, sizeof out);
    acc_memcpy_to_device_async(d, in, sizeof in, 1);
#pragma acc parallel loop deviceptr(d) async(1)
    for (int i = 0; i < N; i++)
        d[i] += 1;
    acc_memcpy_from_device_async(out, d, sizeof out, 1);
    acc_wait(1);
    for (int i = 0; i < N; i++)
        CHECK_EQ(out[i], 3 * i + 1);
    acc_free(d);
    acc_free(NULL);
    for (int k = 0; k < 200; k++) { /* memory comes back */
        void *p = acc_malloc(16 << 20);
        CHECK(p != NULL);
        acc_free(p);
    }
    return pass();
}
