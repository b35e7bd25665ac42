// Constants of C++ in regions that copy both ways: constexpr tables, references to constants, members of a constant object.
#include "check.h"

namespace {
constexpr int table[4] = {1, 2, 3, 4};

struct Limits {
    double low, high;
    int weights[3];
};
const Limits limits = {0.5, 2.5, {1, 2, 3}};

double scaled(const double &factor, const int &n)
{
    double x = 0;
#pragma acc kernels copy(x)
    x = factor * n;
#pragma acc kernels copy(x, factor, n) async
    x += factor * n;
#pragma acc wait
    return x;
}
} // namespace

static const double factor = 1.5;

int main()
{
    int sum = 0;
    double width = 0;
#pragma acc parallel copy(table, sum)
    for (int i = 0; i < 4; i++)
        sum += table[i];
    CHECK_EQ(sum, 10);
#pragma acc parallel copy(limits, width)
    width = limits.high - limits.low + limits.weights[2];
    CHECK_EQ(width, 5);
#pragma acc parallel copy(limits, width) async
    width = limits.high + limits.weights[0];
#pragma acc wait
    CHECK_EQ(width, 3.5);
    CHECK_EQ(scaled(factor, 4), 12);
    return pass();
}
