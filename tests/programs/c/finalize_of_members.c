// exit data with finalize, of an array that a member points to: ends that array, and leaves what the structure's counters have of their
// own. GCC sends the member's eight bytes beside it (2.6.6, 2.6.7).
// EXPECT device-memory
#include "check.h"

enum { N = 10 };

struct inner {
    int m;
    double *r;
};

struct box {
    int n;
    double *q, *p;
    struct inner in;
    struct inner *by;
    double v[4];
};

static struct box s;

static void fresh(void)
{
    s.n = 5;
    for (int i = 0; i < N; i++)
        s.q[i] = s.p[i] = s.in.r[i] = s.by->r[i] = i;
    for (int i = 0; i < 4; i++)
        s.v[i] = i;
#pragma acc enter data copyin(s)
#pragma acc parallel present(s)
    s.n = 42;
}

/* The structure is the device's still, and goes with one more reference. */
static void stays(void)
{
    CHECK(acc_is_present(&s, sizeof s));
    int n = 0;
#pragma acc parallel copyout(n)
    n = s.n;
    CHECK_EQ(n, 42);
#pragma acc exit data delete(s)
    CHECK(!acc_is_present(&s, 1));
}

static void deleted(void)
{
    fresh();
#pragma acc enter data copyin(s.q[0:N])
#pragma acc enter data copyin(s.q[0:N])
#pragma acc exit data delete(s.q[0:N]) finalize
    CHECK(!acc_is_present(s.q, 1));
    stays();
}

static void copied_out(void)
{
    fresh();
#pragma acc enter data copyin(s.q[0:N], s.p[0:N])
#pragma acc parallel loop present(s)
    for (int i = 0; i < N; i++)
        s.q[i] += 100;
#pragma acc exit data copyout(s.q[0:N]) finalize
    CHECK(!acc_is_present(s.q, 1));
    CHECK_EQ(s.q[N - 1], 100 + N - 1);
#pragma acc parallel loop present(s)
    for (int i = 0; i < N; i++)
        s.p[i] += 1;
#pragma acc exit data copyout(s.p[0:N]) finalize
    CHECK_EQ(s.p[N - 1], N);
    stays();
}

/* By the pointer alone. */
static void by_pointer(void)
{
    fresh();
#pragma acc enter data copyin(s.q[0:N])
#pragma acc enter data copyin(s.q[0:N])
#pragma acc exit data delete(s.q) finalize
    CHECK(!acc_is_present(s.q, 1));
#pragma acc exit data delete(s.q) finalize
#pragma acc exit data delete(s.q)
    stays();
}

/* One more than there are references. */
static void too_many(void)
{
    fresh();
#pragma acc enter data copyin(s.q[0:N])
#pragma acc exit data delete(s.q[0:N])
#pragma acc exit data delete(s.q[0:N])
#pragma acc exit data delete(s.q[0:N]) finalize
#pragma acc exit data copyout(s.q[0:N]) finalize
    stays();
}

static void attached(void)
{
    fresh();
#pragma acc enter data copyin(s.q[0:N])
#pragma acc enter data attach(s.q)
#pragma acc exit data detach(s.q) finalize
    CHECK(acc_is_present(s.q, N * sizeof(double)));
#pragma acc exit data delete(s.q[0:N]) detach(s.q) finalize
    CHECK(!acc_is_present(s.q, 1));
    stays();
    fresh();
#pragma acc enter data copyin(s.q[0:N])
    acc_detach_finalize((void **)&s.q);
#pragma acc exit data delete(s.q[0:N])
    CHECK(!acc_is_present(s.q, 1));
    stays();
}

/* The routines, where directives have brought the references. */
static void routines(void)
{
    fresh();
#pragma acc enter data copyin(s.q[0:N], s.p[0:N])
    acc_delete_finalize(s.q, N * sizeof(double));
    acc_copyout_finalize(s.p, N * sizeof(double));
    CHECK(!acc_is_present(s.q, 1) && !acc_is_present(s.p, 1));
    acc_delete_finalize(&s.q, sizeof s.q);
    acc_copyout_finalize(&s.p, sizeof s.p);
    stays();
    fresh();
#pragma acc enter data copyin(s.v)
    acc_delete_finalize(s.v, sizeof s.v);
    stays();
}

static void levels(void)
{
    fresh();
#pragma acc enter data copyin(s.in.r[0:N])
#pragma acc exit data delete(s.in.r[0:N]) finalize
    CHECK(!acc_is_present(s.in.r, 1));
    stays();
    fresh();
#pragma acc enter data copyin(s.by[0:1])
#pragma acc enter data copyin(s.by->r[0:N])
#pragma acc exit data copyout(s.by->r[0:N]) finalize
    CHECK(!acc_is_present(s.by->r, 1) && acc_is_present(s.by, sizeof *s.by));
#pragma acc exit data delete(s.by[0:1]) finalize
    CHECK(!acc_is_present(s.by, 1));
    stays();
}

/* Members that are no pointers, which came by clauses of their own. */
static void plain_members(void)
{
    fresh();
#pragma acc enter data copyin(s.v)
#pragma acc enter data copyin(s.v)
#pragma acc parallel loop present(s)
    for (int i = 0; i < 4; i++)
        s.v[i] = 7;
#pragma acc exit data copyout(s.v) finalize
    CHECK_ALL(s.v, 4, 7);
    stays();
}

/* The member before its structure: what it has brought goes with it. */
static void member_first(void)
{
#pragma acc enter data copyin(s.q[0:N])
#pragma acc enter data copyin(s.q[0:N])
    fresh();
#pragma acc exit data delete(s.q[0:N]) finalize
    CHECK(!acc_is_present(s.q, 1));
    stays();
    /* And without one. */
#pragma acc enter data copyin(s.q[0:N])
#pragma acc enter data copyin(s.q[0:N])
#pragma acc exit data delete(s.q[0:N]) finalize
    CHECK(!acc_is_present(s.q, 1) && !acc_is_present(&s.q, 1));
}

/* Through a pointer to the structure, which GCC does not count. */
static void through_a_pointer(struct box *t)
{
    fresh();
#pragma acc enter data copyin(t->q[0:N])
#pragma acc exit data delete(s.q[0:N]) finalize
    CHECK(!acc_is_present(s.q, 1));
#pragma acc enter data copyin(s.q[0:N])
#pragma acc exit data delete(t->q[0:N]) finalize
    CHECK(!acc_is_present(s.q, 1) && acc_is_present(t, sizeof *t));
#pragma acc exit data delete(s.q[0:N])
    stays();
}

/* A data region holds the structure whatever ends in it. */
static void in_a_region(void)
{
#pragma acc data copy(s)
    {
#pragma acc enter data copyin(s.q[0:N])
#pragma acc exit data delete(s.q[0:N]) finalize
#pragma acc exit data delete(s.q[0:N]) finalize
        CHECK(!acc_is_present(s.q, 1) && acc_is_present(&s, sizeof s));
    }
    CHECK(!acc_is_present(&s, 1));
}

/* All of the structure. */
static void whole(void)
{
    fresh();
#pragma acc enter data copyin(s)
#pragma acc enter data copyin(s.q[0:N])
#pragma acc exit data delete(s.q[0:N])
#pragma acc exit data delete(s) finalize
    CHECK(!acc_is_present(&s, 1));
}

int main(void)
{
    s.q = malloc(N * sizeof(double));
    s.p = malloc(N * sizeof(double));
    s.in.r = malloc(N * sizeof(double));
    s.by = malloc(sizeof *s.by);
    s.by->r = malloc(N * sizeof(double));
    deleted();
    copied_out();
    by_pointer();
    too_many();
    attached();
    routines();
    levels();
    plain_members();
    member_first();
    through_a_pointer(&s);
    in_a_region();
    whole();
    return pass();
}
