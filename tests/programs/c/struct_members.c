// Members of a struct: one block on the device, and pointers in it attached (2.6.4, 2.7.2).
#include "check.h"

struct s { int n; float *p; double q; float *r; };

int main(void)
{
    struct s s = {10, malloc(10 * sizeof(float)), 1.5, malloc(20 * sizeof(float))};
    for (int i = 0; i < 10; i++)
        s.p[i] = i;
    for (int i = 0; i < 20; i++)
        s.r[i] = 100 + i;
    float *p = s.p, *r = s.r;
#pragma acc data copy(s.n, s.p[0:s.n], s.r[2:4])
    {
#pragma acc parallel present(s.n, s.p[0:10], s.r[2:4])
        {
            for (int i = 0; i < s.n; i++)
                s.p[i] += s.r[2 + i % 4];
            s.n = 7;
        }
    }
    CHECK_EQ(s.n, 7);
    CHECK(s.p == p && s.r == r);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(s.p[i], i + 102 + i % 4);
    CHECK_EQ(s.q, 1.5);
    return pass();
}
