// kernels: scalars are mapped, several loops in one construct (2.5.3).
#include "check.h"

int main(void)
{
    enum { N = 50 };
    int a[N], b[N], last = 0;
    for (int i = 0; i < N; i++)
        a[i] = i;
#pragma acc kernels copyin(a) copyout(b)
    {
        for (int i = 0; i < N; i++)
            b[i] = 2 * a[i];
        for (int i = 0; i < N; i++)
            b[i] += 1;
        last = b[N - 1];
    }
    CHECK_EQ(last, 2 * (N - 1) + 1);
    for (int i = 0; i < N; i++)
        CHECK_EQ(b[i], 2 * i + 1);
#pragma acc kernels loop independent copy(a)
    for (int i = 0; i < N; i++)
        a[i] = -a[i];
    for (int i = 0; i < N; i++)
        CHECK_EQ(a[i], -i);
    return pass();
}
