// Regions in namespaces, inline functions, static members and lambdas; overloaded functions with regions.
#include "check.h"

namespace one {
inline int work(int x)
{
#pragma acc parallel copy(x)
    x += 1;
    return x;
}
inline double work(double x)
{
#pragma acc parallel copy(x)
    x += 0.5;
    return x;
}
} // namespace one

namespace {
struct Tool {
    static int twice(int x)
    {
#pragma acc parallel copy(x)
        x *= 2;
        return x;
    }
};
} // namespace

int main()
{
    CHECK_EQ(one::work(1), 2);
    CHECK_EQ(one::work(1.0), 1.5);
    CHECK_EQ(Tool::twice(21), 42);
    auto lambda = [](int k) {
        int r = 0;
#pragma acc parallel copy(r)
        r = k * 3;
        return r;
    };
    CHECK_EQ(lambda(5), 15);
    return pass();
}
