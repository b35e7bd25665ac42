// ACCORD_UNMAPPED=map: memory of `new` and of a vector, by pointer and by iterator.
// RUN env=ACCORD_UNMAPPED=map
#include "check.h"
#include <vector>

template <typename T> static void scale(T *a, long n, T by)
{
#pragma acc parallel loop
    for (long i = 0; i < n; i++)
        a[i] *= by;
}

int main()
{
    const int n = 1000;
    std::vector<float> v(n, 3);
    double *d = new double[n];
    for (int i = 0; i < n; i++)
        d[i] = i;
    scale(v.data(), n, 2.0f);
    scale(d + 1, n - 1, -1.0);
    for (int i = 0; i < n; i++)
        CHECK(v[i] == 6 && d[i] == -i);
    delete[] d;
    return pass();
}
