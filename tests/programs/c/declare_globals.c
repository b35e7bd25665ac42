// declare create, copyin and device_resident at file scope: present from the start, with initial values (2.13).
#include "check.h"

int g[64];
int h = 3;
static double table[4] = {1.5, 2.5, 3.5, 4.5};
#pragma acc declare create(g)
#pragma acc declare copyin(h, table)

#pragma acc routine seq
static int scaled(int i)
{
    return g[i] * h;
}

int main(void)
{
    int out[64];
    double sum = 0;
    CHECK_EQ(acc_is_present(g, sizeof g), 1);
    CHECK_EQ(acc_is_present(&h, sizeof h), 1);
#pragma acc parallel loop
    for (int i = 0; i < 64; i++)
        g[i] = i;
#pragma acc parallel loop copyout(out)
    for (int i = 0; i < 64; i++)
        out[i] = scaled(i);
    for (int i = 0; i < 64; i++)
        CHECK_EQ(out[i], 3 * i);
#pragma acc parallel copyout(sum)
    {
        sum = 0;
        for (int i = 0; i < 4; i++)
            sum += table[i];
    }
    CHECK_EQ(sum, 12);
    h = 5;
    acc_update_device(&h, sizeof h);
#pragma acc parallel loop copyout(out)
    for (int i = 0; i < 64; i++)
        out[i] = scaled(i);
    for (int i = 0; i < 64; i++)
        CHECK_EQ(out[i], 5 * i);
    g[1] = -1;
    acc_update_self(g, sizeof g);
    for (int i = 0; i < 64; i++)
        CHECK_EQ(g[i], separate() || i != 1 ? i : -1);
    return pass();
}
