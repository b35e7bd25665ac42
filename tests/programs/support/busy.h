// Work that keeps a queue busy, some 10 ms, while a program puts in what follows.
#ifndef BUSY_H
#define BUSY_H

#include <openacc.h>

static void busy(int queue)
{
    static int spin[1];
    int rounds = acc_get_device_type() == acc_device_nvidia ? 50000 : 3000000;
#pragma acc parallel num_gangs(1) copyin(spin[0:1]) async(queue)
    {
        volatile double x = spin[0];
        for (int i = 0; i < rounds; i++)
            x = x + i;
    }
}

#endif
