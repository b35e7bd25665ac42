// `create`: memory on the device, no copies (2.7.9).
#include "check.h"

int main(void)
{
    int scratch[64], out[64];
    for (int i = 0; i < 64; i++)
        scratch[i] = -5;
#pragma acc data create(scratch) copyout(out)
    {
#pragma acc parallel loop
        for (int i = 0; i < 64; i++)
            scratch[i] = 3 * i;
#pragma acc parallel loop
        for (int i = 0; i < 64; i++)
            out[i] = scratch[63 - i];
    }
    for (int i = 0; i < 64; i++) {
        CHECK_EQ(out[i], 3 * (63 - i));
        CHECK_EQ(scratch[i], WANT(-5, 3 * i));
    }
    return pass();
}
