// A region calls by a pointer that the program made: the message names the function, the region and the line of the call.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/apply\._omp_fn\.0 \(.*bad_function_pointer\.c:19, .*ended with SIGSEGV.* by a call of what is at address 0x/
// EXPECT stderr=/in the program that is twice \(bad_function_pointer\.c:1[23]\), which the device's process has at another address/
// EXPECT stderr=/have the region call the function by its name/
// BUILD offload=no
#include "check.h"

/* Its address differs from process to process. */
static double twice(double x)
{
    return 2 * x;
}

static double apply(double (*f)(double), double x)
{
#pragma acc parallel copy(x)
    x = f(x);
    return x;
}

int main(int argc, char **argv)
{
    (void)argv;
    printf("FAIL: the region came back %g\n", apply(argc > 100 ? 0 : twice, 2));
    return 0;
}
