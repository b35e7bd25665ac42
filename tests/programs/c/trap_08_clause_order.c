// Entries arrive in about the reverse order of the clauses: nothing may depend on it.
#include "check.h"

int main(void)
{
    int a[4] = {1, 1, 1, 1}, b[4] = {2, 2, 2, 2}, c[4], d[4], *p = malloc(4 * sizeof *p), s = 0;
#pragma acc data create(d) copyin(a) copyout(c) copy(p[0:4]) copyin(b)
    {
#pragma acc parallel loop present(b, a) copy(s) present(p[0:4], d) present(c) reduction(+ : s)
        for (int i = 0; i < 4; i++) {
            d[i] = a[i] + b[i];
            c[i] = d[i] * 10;
            p[i] = c[i] + 1;
            s += p[i];
        }
#pragma acc parallel loop present(c) present(d) copy(s) present(a) present(p[0:4]) present(b) reduction(+ : s)
        for (int i = 0; i < 4; i++)
            s += a[i] + b[i] + c[i] + d[i] + p[i];
    }
    CHECK_ALL(c, 4, 30);
    CHECK_ALL(p, 4, 31);
    CHECK_EQ(s, 4 * 31 + 4 * (1 + 2 + 30 + 3 + 31));
    return pass();
}
