// An object that becomes present after arrays that its members point to: its pointers are attached, whether by attach or not.
// EXPECT device-memory
#include "check.h"

enum { N = 64 };
struct pair {
    double *x;
    int scale;
    double *y;
};

static void fill(struct pair *p)
{
    for (int i = 0; i < N; i++) {
        p->x[i] = i;
        p->y[i] = -1;
    }
}

int main(void)
{
    struct pair p = {malloc(N * sizeof(double)), 3, malloc(N * sizeof(double))};
    CHECK(separate());
    for (int attach = 0; attach < 2; attach++) {
        fill(&p);
        p.scale = 3;
#pragma acc enter data copyin(p.x[0:N], p.y[0:N])
        CHECK(acc_is_present(p.x, N * sizeof(double)) && !acc_is_present(&p, sizeof p));
#pragma acc parallel loop present(p.x[0:N], p.y[0:N])
        for (int i = 0; i < N; i++)
            p.y[i] = p.x[i];
#pragma acc enter data copyin(p)
        CHECK(acc_is_present(&p, sizeof p));
        if (attach) {
            acc_attach((void **)&p.x);
#pragma acc enter data attach(p.y)
        }
#pragma acc parallel loop default(present)
        for (int i = 0; i < N; i++)
            p.y[i] += p.scale * p.x[i];
#pragma acc serial default(present)
        p.scale = 7;
        if (attach) {
            acc_detach((void **)&p.x);
#pragma acc exit data detach(p.y)
        }
        double *x = p.x, *y = p.y;
#pragma acc exit data copyout(p.x[0:N]) copyout(p.y[0:N])
        CHECK(acc_is_present(&p, sizeof p));
#pragma acc exit data copyout(p)
        CHECK(!acc_is_present(&p, 1) && p.x == x && p.y == y);
        CHECK_EQ(p.scale, 7);
        for (int i = 0; i < N; i++)
            CHECK_EQ(p.y[i], 4 * i);
    }
    free(p.x);
    free(p.y);
    return pass();
}
