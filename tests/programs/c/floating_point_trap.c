// A division by zero in a region is an error where the program has that trapped: the message names exception, region and line.
// BUILD offload=no
// BUILD flags=-lm
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/divide\._omp_fn\.0 \(.*floating_point_trap\.c:1[78], .*ended with SIGFPE \(floating-point division by zero\)/
// EXPECT stderr=/acc_error_execution\]; the program has had this exception trapped/
#define _GNU_SOURCE
#include "check.h"
#include <fenv.h>

static double divide(double by)
{
    double x[2] = {1, by}, r;
#pragma acc parallel copyin(x) copyout(r)
    {
        r = x[0] / x[1];
    }
    return r;
}

int main(void)
{
    CHECK(divide(0) > 1e300);
    feenableexcept(FE_DIVBYZERO);
    CHECK_EQ(divide(2), 0.5);
    printf("FAIL: the region came back with %g\n", divide(0));
    return 0;
}
