// More queues than any device has streams.
#include "check.h"

int main(void)
{
    enum { QUEUES = 200 };
    static int a[QUEUES];
#pragma acc data copy(a)
    {
        for (int q = 0; q < QUEUES; q++) {
#pragma acc parallel present(a) async(q)
            a[q] += q;
#pragma acc parallel present(a) async(q)
            a[q] *= 2;
        }
#pragma acc wait
    }
    for (int q = 0; q < QUEUES; q++)
        CHECK_EQ(a[q], 2 * q);
    return pass();
}
