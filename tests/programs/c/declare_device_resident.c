// declare device_resident: exists on the device only (2.13.1).
#include "check.h"

static int counter[1];
static int table[8];
#pragma acc declare device_resident(counter, table)

#pragma acc routine seq
static int bump(int i)
{
    table[i] += i;
    return ++counter[0];
}

int main(void)
{
    int got[3] = {0};
#pragma acc serial copy(got)
    {
        counter[0] = 0;
        for (int i = 0; i < 8; i++)
            table[i] = 10;
    }
    for (int k = 0; k < 3; k++) {
#pragma acc serial copy(got)
        {
            bump(k);
            got[k] = counter[0] * 100 + table[k];
        }
    }
    for (int k = 0; k < 3; k++)
        CHECK_EQ(got[k], (k + 1) * 100 + 10 + k);
    return pass();
}
