// `copy(p->x[0:n])` where what `p` points to is not on the device: GCC 12 attaches `p->x` to nothing, and the region would find no
// pointer. Arrays and scalars of the object: there GCC 12 takes the member's address for the object's, also without a device.
// EXPECT device-memory
#include "check.h"

enum { N = 60 };

struct field {
    int n;
    double *x;
    int fixed[4];
    double *y;
    int after;
};

static void one(struct field *p)
{
#pragma acc parallel loop copy(p->x[0:N])
    for (int i = 0; i < N; i++)
        p->x[i] += 1;
}

static void two(struct field *p)
{
#pragma acc parallel loop copyin(p->x[0:N]) copy(p->y[0:N])
    for (int i = 0; i < N; i++)
        p->y[i] += p->x[i];
}

static void queued(struct field *p)
{
#pragma acc parallel loop copy(p->x[0:N]) async(1)
    for (int i = 0; i < N; i++)
        p->x[i] *= 2;
#pragma acc parallel loop copy(p->x[0:N]) async(1)
    for (int i = 0; i < N; i++)
        p->x[i] += 3;
#pragma acc wait(1)
}

static void there(struct field *p)
{
#pragma acc enter data copyin(p->x[0:N])
#pragma acc parallel loop present(p->x[0:N])
    for (int i = 0; i < N; i++)
        p->x[i] += 1;
#pragma acc exit data copyout(p->x[0:N])
}

static void two_objects(struct field *p, struct field *q)
{
#pragma acc parallel loop copy(p->x[0:N]) copyin(q->y[0:N])
    for (int i = 0; i < N; i++)
        p->x[i] = q->y[i];
}

static void array(struct field *p)
{
#pragma acc parallel loop copy(p->fixed)
    for (int i = 0; i < 4; i++)
        p->fixed[i] += i;
}

static void others(struct field *p, int on_device)
{
#pragma acc parallel loop copy(p->fixed[1:2]) if(on_device)
    for (int i = 1; i < 3; i++)
        p->fixed[i] += 10;
#pragma acc parallel copy(p->fixed, p->after) if(on_device)
    {
        p->fixed[2] += 100;
        p->after += 1;
    }
#pragma acc serial copyin(p->fixed) copy(p->after) async(2) if(on_device)
    p->after += p->fixed[1];
#pragma acc wait(2)
#pragma acc kernels copy(p->after) if(on_device)
    p->after += 1;
#pragma acc data copy(p->fixed)
    {
#pragma acc parallel present(p->fixed) if(on_device)
        p->fixed[3] += 50;
    }
}

int main(void)
{
    struct field f = {5, malloc(N * 8), {1, 1, 1, 1}, malloc(N * 8), 6}, *g = malloc(sizeof f);
    g->n = 7, g->x = malloc(N * 8), g->y = malloc(N * 8);
    for (int i = 0; i < N; i++)
        f.x[i] = i, f.y[i] = 1, g->x[i] = -i, g->y[i] = 100 + i;
    double *x = f.x;
    one(&f);
    CHECK_EQ(f.x[N - 1], N);
    two(&f);
    CHECK_EQ(f.y[N - 1], N + 1);
    queued(&f);
    CHECK_EQ(f.x[N - 1], 2 * N + 3);
    there(&f);
    CHECK_EQ(f.x[N - 1], 2 * N + 4);
    two_objects(&f, g);
    CHECK_EQ(f.x[5], 105);
    two_objects(g, &f);
    CHECK_EQ(g->x[5], 7);
    one(g);
    CHECK_EQ(g->x[5], 8);
    array(&f);
    CHECK_EQ(f.fixed[3], 4);
    struct field wanted = {5, f.x, {1, 2 + 10, 3 + 10 + 100, 4 + 50}, f.y, 6 + 1 + 12 + 1}, start = f;
    others(&f, 1);
    CHECK(memcmp(f.fixed, wanted.fixed, sizeof f.fixed) == 0);
    CHECK(f.n == wanted.n && f.x == wanted.x && f.y == wanted.y && f.after == wanted.after);
    f = start;
    others(&f, 0);
    CHECK(memcmp(f.fixed, wanted.fixed, sizeof f.fixed - sizeof f.fixed[3]) == 0);
    CHECK_EQ(f.after, wanted.after);
    f = start;
    CHECK(f.x == x && f.n == 5 && f.after == 6 && f.fixed[0] == 1);
    CHECK(!acc_is_present(&f, 1) && !acc_is_present(f.x, 1) && !acc_is_present(g, 1));
    return pass();
}
