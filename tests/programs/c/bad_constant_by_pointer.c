// A region reads a constant by the program's address: the message names the constant and the region.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/second\._omp_fn\.0 \(.*bad_constant_by_pointer\.c:\d+, .*ended with SIGSEGV/
// EXPECT stderr=/in the program that is weights( \(bad_constant_by_pointer\.c:10\)|\+\d+), which the device's process has at another address/
// EXPECT stderr=/copyin\(p\[0:n\]\), or have the region name the constant itself/
// BUILD offload=no
#include "check.h"

const double weights[4] = {1, 2, 3, 4};

struct rule {
    const double *weights;
    int count;
};

static double second(const struct rule *rule)
{
    double x = 0;
#pragma acc parallel copyin(rule[0:1]) copy(x)
    x = rule->weights[1];
    return x;
}

int main(int argc, char **argv)
{
    (void)argv;
    struct rule rule = {argc > 100 ? 0 : weights, 4};
    printf("FAIL: the region came back %g\n", second(&rule));
    return 0;
}
