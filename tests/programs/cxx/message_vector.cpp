// A block of a standard container is named by the container.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/parallel \(message_vector\.cpp:15, .*scale.*\): \S+ \(message_vector\.cpp:\d+, .*scale.*\) is not present on dev\d/
#include "check.h"
#include <vector>

namespace {

__attribute__((noinline)) double scale(std::vector<double> &v, double by)
{
    double *p = v.data();
    int n = (int)v.size();
    v.front() = by;
#pragma acc parallel loop present(p[0:n])
    for (int i = 0; i < n; i++)
        p[i] *= by;
    return v.back() + p[0];
}

}

int main()
{
    std::vector<double> v(100, 1.0);
    double last = scale(v, 2.0);
    printf("FAIL: the region ran %f\n", last);
    return 0;
}
