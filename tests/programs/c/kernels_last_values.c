// kernels: scalars and loop variables have the value of the last iteration afterwards, or their old one without any (2.5.3).
#include "check.h"

static double last(double *restrict to, const double *restrict from, int n, int *count)
{
    double t = -1;
    int i, k = 100;
#pragma acc kernels copyout(to[0:n]) copyin(from[0:n])
    for (i = 0; i < n; i++) {
        t = from[i] * 2;
        k = i + 1;
        to[i] = t + k;
    }
    *count = i * 1000 + k;
    return t;
}

static float down(float *restrict to, unsigned n)
{
    float t = 7;
#pragma acc kernels copyout(to[0:n])
    {
        for (unsigned i = 0; i < n; i++)
            to[i] = 1;
        for (int i = (int)n - 1; i >= 2; i -= 3) {
            t = i;
            to[i] += t;
        }
    }
    return t;
}

int main(void)
{
    double from[20], to[20];
    float there[20];
    int count;
    for (int i = 0; i < 20; i++)
        from[i] = i;
    CHECK_EQ(last(to, from, 20, &count), 38);
    CHECK_EQ(count, 20020);
    CHECK_EQ(to[19], 58);
    CHECK_EQ(down(there, 20), 4);
    CHECK_EQ(there[19] + there[4] + there[3], 20 + 5 + 1);
    CHECK_EQ(down(there, 2), 7);
    return pass();
}
