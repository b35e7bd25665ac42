// 48 MiB in and out, by region, by enter/exit data and in a queue.
#include "check.h"

int main(void)
{
    size_t n = (size_t)6 << 20;
    double *a = malloc(n * sizeof *a);
    CHECK(a != NULL);
    for (size_t i = 0; i < n; i++)
        a[i] = (double)i;
#pragma acc parallel loop copy(a[0:n])
    for (size_t i = 0; i < n; i++)
        a[i] += 1;
#pragma acc enter data copyin(a[0:n]) async(1)
#pragma acc parallel loop present(a[0:n]) async(1)
    for (size_t i = 0; i < n; i++)
        a[i] *= 2;
#pragma acc exit data copyout(a[0:n]) async(1)
#pragma acc wait(1)
    for (size_t i = 0; i < n; i++)
        if (a[i] != 2 * (i + 1.0))
            CHECK_EQ(a[i], 2 * (i + 1.0));
    free(a);
    return pass();
}
