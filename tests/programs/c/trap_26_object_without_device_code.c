// Built without offloading there is no image to register: the regions still run, on a CPU device or the host.
// BUILD offload=no
#include "check.h"

int main(void)
{
    int a[10] = {0};
#pragma acc parallel loop copy(a)
    for (int i = 0; i < 10; i++)
        a[i] = i * i;
    for (int i = 0; i < 10; i++)
        CHECK_EQ(a[i], i * i);
    return pass();
}
