// `deviceptr` on a compute and on a data construct (2.7.4).
#include "check.h"

int main(void)
{
    enum { N = 128 };
    int *d = acc_malloc(N * sizeof(int)), host[N];
    CHECK(d != NULL);
#pragma acc parallel loop deviceptr(d)
    for (int i = 0; i < N; i++)
        d[i] = i + 1;
#pragma acc data deviceptr(d)
    {
#pragma acc parallel loop
        for (int i = 0; i < N; i++)
            d[i] *= 2;
    }
    acc_memcpy_from_device(host, d, sizeof host);
    for (int i = 0; i < N; i++)
        CHECK_EQ(host[i], 2 * (i + 1));
    acc_free(d);
    return pass();
}
