// ACCORD_UNMAPPED=map: a pointer that a construct attaches in a block which it is lent leads to the device's array, and keeps its
// value in the program.
// RUN env=ACCORD_UNMAPPED=map
#include "check.h"

enum { N = 10 };

struct box {
    int n;
    double *q;
    int m;
};

int main(void)
{
    struct box *t = malloc(sizeof *t);
    double *q = malloc(N * sizeof *q);
    t->n = 10;
    t->q = q;
    for (int i = 0; i < N; i++)
        q[i] = i;
#pragma acc parallel loop copy(t->q[0:N])
    for (int i = 0; i < N; i++) {
        t->q[i] += t->n;
        if (i == 0)
            t->m = 7;
    }
    CHECK(t->q == q);
    CHECK_EQ(t->m, 7);
    CHECK_EQ(q[N - 1], N - 1 + 10);
#pragma acc enter data copyin(q[0:N])
#pragma acc parallel loop attach(t->q) async(1)
    for (int i = 0; i < N; i++) {
        t->q[i] += t->n;
        if (i == 0)
            t->m = 8;
    }
#pragma acc exit data copyout(q[0:N]) async(1)
#pragma acc wait(1)
    CHECK(t->q == q);
    CHECK_EQ(t->m, 8);
    CHECK_EQ(q[N - 1], N - 1 + 20);
    return pass();
}
