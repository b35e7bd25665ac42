// `copyout`: nothing in at entry, out at exit (2.7.8).
#include "check.h"

int main(void)
{
    int n = 1000;
    float *a = malloc(n * sizeof *a);
    for (int i = 0; i < n; i++)
        a[i] = -1;
#pragma acc parallel loop copyout(a[0:n])
    for (int i = 0; i < n; i++)
        a[i] = i / 2.0f;
    for (int i = 0; i < n; i++)
        CHECK_EQ(a[i], i / 2.0f);
    free(a);
    return pass();
}
