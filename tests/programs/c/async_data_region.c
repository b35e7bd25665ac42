// A region with copyin and copyout of its own in a queue: copies stay in the queue's order.
#include "check.h"

int main(void)
{
    enum { N = 100000 };
    static double in[N], out[N];
    for (int i = 0; i < N; i++)
        in[i] = i;
#pragma acc parallel loop copyin(in) copyout(out) async(1)
    for (int i = 0; i < N; i++)
        out[i] = in[i] + 0.5;
#pragma acc wait(1)
    for (int i = 0; i < N; i++)
        CHECK_EQ(out[i], i + 0.5);
    return pass();
}
