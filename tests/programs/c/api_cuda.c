// CUDA routines on a device that is no CUDA device (appendix A.2.1): nothing to give.
#include "check.h"

int main(void)
{
    int x = 1;
#pragma acc parallel copy(x) async(1)
    x = 2;
#pragma acc wait(1)
    CHECK(acc_get_current_cuda_device() == NULL);
    CHECK(acc_get_current_cuda_context() == NULL);
    CHECK(acc_get_cuda_stream(1) == NULL);
    acc_set_cuda_stream(1, NULL);
#pragma acc parallel copy(x) async(1)
    x = 3;
#pragma acc wait(1)
    CHECK_EQ(x, 3);
    return pass();
}
