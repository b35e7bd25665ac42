// Through a pointer to a struct: t->p, t->r, updates of them and finalize.
#include "check.h"

struct s { int n; float *p; float *r; };

int main(void)
{
    struct s *t = malloc(sizeof *t);
    t->n = 10;
    t->p = malloc(10 * sizeof(float));
    t->r = malloc(10 * sizeof(float));
    for (int i = 0; i < 10; i++)
        t->p[i] = i;
    float *p = t->p, *r = t->r;
#pragma acc enter data copyin(t[0:1])
#pragma acc enter data copyin(t->p[0:10]) create(t->r[0:10])
#pragma acc parallel loop present(t[0:1])
    for (int i = 0; i < 10; i++) {
        t->r[i] = 3 * t->p[i];
        t->p[i] += 1;
    }
#pragma acc update self(t->p[0:5])
    CHECK(t->p == p && t->r == r);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(t->p[i], i < 5 ? i + 1 : WANT(i, i + 1));
#pragma acc parallel loop present(t[0:1]) /* the device's pointer is still the device's */
    for (int i = 0; i < 10; i++)
        t->p[i] += 1;
#pragma acc exit data copyout(t->p[0:10], t->r[0:10])
#pragma acc exit data copyout(t[0:1])
    CHECK(t->p == p && t->r == r);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(t->p[i], i + 2);
        CHECK_EQ(t->r[i], 3 * i);
    }
#pragma acc enter data copyin(t[0:1])
#pragma acc enter data copyin(t->p[0:10])
#pragma acc enter data copyin(t->p[0:10])
#pragma acc exit data delete(t->p[0:10]) finalize
    CHECK_EQ(acc_is_present(t->p, 40), WANT(0, 1));
#pragma acc exit data delete(t[0:1])
    return pass();
}
