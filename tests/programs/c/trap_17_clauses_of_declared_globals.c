// GCC 12 drops clauses that name a whole declared variable; sections, use_device and the routines do arrive.
#include "check.h"

int g[8] = {1, 2, 3, 4, 5, 6, 7, 8};
#pragma acc declare copyin(g)

int main(void)
{
    void *host = g, *device = NULL;
#pragma acc parallel loop
    for (int i = 0; i < 8; i++)
        g[i] *= 10;
#pragma acc update self(g[1:2])
    CHECK_EQ(g[0], WANT(1, 10));
    CHECK_EQ(g[1], 20);
    CHECK_EQ(g[2], 30);
    CHECK_EQ(g[3], WANT(4, 40));
    acc_update_self(g, sizeof g);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(g[i], 10 * (i + 1));
    g[5] = -1;
#pragma acc update device(g[5:1])
    int got = 0;
#pragma acc parallel copyout(got)
    got = g[5];
    CHECK_EQ(got, -1);
#pragma acc host_data use_device(g)
    device = g;
    CHECK(device == acc_deviceptr(host));
#pragma acc enter data copyin(g[0:8])
#pragma acc exit data delete(g[0:8]) finalize
    CHECK_EQ(acc_is_present(g, sizeof g), 1); /* for good */
    return pass();
}
