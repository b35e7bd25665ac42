// An async region gets the scalars' values of its own call, though the host changes them at once.
#include "check.h"

int main(void)
{
    enum { N = 100 };
    static int out[N];
    int x = 0;
    double y = 0;
#pragma acc data copyout(out)
    {
        for (int k = 0; k < N; k++) {
            x = k;
            y = k * 0.5;
#pragma acc parallel present(out) async(1)
            out[k] = x + (int)(2 * y);
            x = -1;
            y = -1e9;
        }
#pragma acc wait(1)
    }
    for (int k = 0; k < N; k++)
        CHECK_EQ(out[k], 2 * k);
    return pass();
}
