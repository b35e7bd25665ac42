// `copy(p->x[0:n])` beside other members of an absent `*p`: GCC 12 maps these, and attaches `p->x`, but maps nothing in which that
// could be. All of them are in one place, at their distances; with the host, the region runs on the object itself.
// EXPECT device-memory
#include "check.h"

enum { N = 50 };

struct inner {
    int k;
    double *w;
};

struct field {
    int n;
    double *x;
    double *y;
    double scale;
    int fixed[4];
    struct inner inner;
};

static struct field *new_field(void)
{
    struct field *p = malloc(sizeof *p);
    *p = (struct field){N, malloc(N * 8), malloc(N * 8), 3, {1, 2, 3, 4}, {7, malloc(N * 8)}};
    for (int i = 0; i < N; i++)
        p->x[i] = i, p->y[i] = 2 * i, p->inner.w[i] = 5;
    return p;
}

static void parallel(struct field *p, int on_device)
{
    double *x = p->x;
#pragma acc parallel loop copy(p->x[0:N]) copyin(p->scale) if(on_device)
    for (int i = 0; i < N; i++)
        p->x[i] += p->scale;
    CHECK_EQ(p->x[9], 12);
#pragma acc parallel loop copyin(p->n) copy(p->x[0:N]) if(on_device)
    for (int i = 0; i < p->n; i++)
        p->x[i] += 1;
    CHECK_EQ(p->x[9], 13);
#pragma acc parallel loop copy(p->x[0:N], p->y[0:N], p->scale) copyin(p->fixed) if(on_device)
    for (int i = 0; i < N; i++) {
        p->x[i] += p->y[i] + p->fixed[i % 4];
        if (i == 0)
            p->scale = 9;
    }
    CHECK_EQ(p->x[9], 13 + 18 + 2);
    CHECK_EQ(p->scale, 9);
#pragma acc parallel loop copyin(p->fixed[1:2]) copy(p->x[0:N]) async(1) if(on_device)
    for (int i = 0; i < N; i++)
        p->x[i] = p->fixed[1] + p->fixed[2];
#pragma acc parallel loop copyout(p->fixed) copyin(p->x[0:N]) async(1) if(on_device)
    for (int i = 0; i < 4; i++)
        p->fixed[i] = (int)p->x[i] + i;
#pragma acc wait(1)
    CHECK_EQ(p->x[9], 5);
    CHECK_EQ(p->fixed[3], 8);
    CHECK(p->x == x && p->n == N);
}

static void kernels(struct field *p, int on_device)
{
#pragma acc kernels copy(p->x[0:N]) copyin(p->scale) if(on_device)
    for (int i = 0; i < N; i++)
        p->x[i] += p->scale;
    CHECK_EQ(p->x[9], 12);
#pragma acc serial copy(p->y[0:N], p->scale) if(on_device)
    {
        p->scale += p->y[1];
        p->y[1] = 0;
    }
    CHECK_EQ(p->scale, 5);
    CHECK_EQ(p->y[1], 0);
}

static void deeper(struct field *p, int on_device)
{
#pragma acc parallel loop copy(p->inner.w[0:N]) copyin(p->inner.k, p->scale) if(on_device)
    for (int i = 0; i < N; i++)
        p->inner.w[i] += p->inner.k + p->scale;
    CHECK_EQ(p->inner.w[9], 15);
}

static void two(struct field *p, struct field *q, int on_device)
{
#pragma acc parallel loop copy(p->x[0:N], p->scale) copyin(q->y[0:N], q->fixed) if(on_device)
    for (int i = 0; i < N; i++) {
        p->x[i] = q->y[i] + q->fixed[1];
        if (i == 3)
            p->scale = q->fixed[2];
    }
    CHECK_EQ(p->x[9], 20);
    CHECK_EQ(p->scale, 3);
}

int main(void)
{
    for (int on_device = 1; on_device >= 0; on_device--) {
        struct field *p = new_field(), *q = new_field(), local = *new_field();
        parallel(p, on_device);
        parallel(&local, on_device);
        kernels(new_field(), on_device);
        deeper(new_field(), on_device);
        two(new_field(), q, on_device);
        two(q, new_field(), on_device);
        CHECK(!acc_is_present(p, 1) && !acc_is_present(p, sizeof *p) && !acc_is_present(p->x, 1));
    }
    return pass();
}
