// std::vector's storage by its pointer.
#include "check.h"
#include <numeric>
#include <vector>

int main()
{
    std::vector<double> v(1000), w(1000);
    std::iota(v.begin(), v.end(), 0.0);
    double *p = v.data(), *q = w.data();
    const size_t n = v.size();
#pragma acc parallel loop copyin(p[0:n]) copyout(q[0:n])
    for (size_t i = 0; i < n; i++)
        q[i] = p[i] * p[i];
    for (size_t i = 0; i < n; i++)
        CHECK_EQ(w[i], double(i) * i);
    return pass();
}
