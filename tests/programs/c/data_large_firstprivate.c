// Firstprivate aggregates of many KiB, also in a queue.
#include "check.h"

struct big { int v[20000]; };

int main(void)
{
    static struct big b;
    static long sums[4];
    for (int i = 0; i < 20000; i++)
        b.v[i] = i;
#pragma acc data copyout(sums)
    {
        for (int k = 0; k < 4; k++) {
#pragma acc parallel firstprivate(b) present(sums) async(1)
            {
                long sum = 0;
                for (int i = 0; i < 20000; i++)
                    sum += b.v[i];
                sums[k] = sum;
                b.v[0] = 12345;
            }
            b.v[0]++;
        }
#pragma acc wait(1)
    }
    for (int k = 0; k < 4; k++)
        CHECK_EQ(sums[k], 199990000L + k);
    return pass();
}
