// A struct first, its pointer's target later: enter data attaches, exit data detaches, the host's pointer stays.
// BUILD core
#include "check.h"

struct s { int n; float *p; double q; float *r; };

int main(void)
{
    struct s s = {10, malloc(10 * sizeof(float)), 2.0, NULL};
    float *p = s.p;
    for (int i = 0; i < 10; i++)
        p[i] = i;
#pragma acc enter data copyin(s)
#pragma acc enter data copyin(s.p[0:10])
#pragma acc parallel loop present(s)
    for (int i = 0; i < 10; i++)
        s.p[i] = s.p[i] * (float)s.q;
    CHECK(s.p == p);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(p[i], WANT(i, 2 * i));
#pragma acc exit data copyout(s.p[0:10])
#pragma acc exit data copyout(s)
    CHECK(s.p == p);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(p[i], 2 * i);
    CHECK_EQ(acc_is_present(&s, sizeof s), WANT(0, 1));
    return pass();
}
