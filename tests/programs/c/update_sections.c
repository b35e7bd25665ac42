// update self and device of sections, several in one directive (2.14.4).
// BUILD core
#include "check.h"

int main(void)
{
    int n = 100, *p = malloc(n * sizeof *p), s = 1, m = 10;
    for (int i = 0; i < n; i++)
        p[i] = i;
#pragma acc data copyin(p[0:n], s)
    {
        for (int i = 0; i < n; i++)
            p[i] = -1;
#pragma acc update device(p[5:m])
        for (int i = 0; i < n; i++)
            p[i] = -2;
#pragma acc parallel present(s)
        s = 42;
#pragma acc update self(p[0:20]) host(s)
        for (int i = 0; i < n; i++)
            CHECK_EQ(p[i], i >= 20 ? -2 : WANT(i >= 5 && i < 15 ? -1 : i, -2));
        CHECK_EQ(s, 42);
    }
    free(p);
    return pass();
}
