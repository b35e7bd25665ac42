// `exit data` with the name of a pointer, which is the variable to GCC, gives up the array that it points to. Nothing would be
// copied out otherwise, and what is allocated at the same place next would be taken for the old array (2.6.6).
// EXPECT device-memory
#include "check.h"

enum { N = 100 };

struct vector {
    int n;
    double *x, *y;
};

static void add(int *p, int n, int by)
{
#pragma acc parallel loop present(p[0:n])
    for (int i = 0; i < n; i++)
        p[i] += by;
}

static void plain(int *p)
{
    for (int i = 0; i < N; i++)
        p[i] = i;
#pragma acc enter data copyin(p[0:N])
    add(p, N, 1);
#pragma acc exit data copyout(p)
    CHECK(!acc_is_present(p, N * sizeof *p));
    for (int i = 0; i < N; i++)
        CHECK_EQ(p[i], i + 1);

#pragma acc enter data copyin(p[0:N]) async(1)
    add(p, N, 1);
#pragma acc exit data copyout(p) async(1)
#pragma acc wait(1)
    CHECK(!acc_is_present(p, N * sizeof *p));
    CHECK_EQ(p[N - 1], N + 1);

    /* Counted, and not at all with finalize. */
#pragma acc enter data copyin(p[0:N])
#pragma acc enter data copyin(p[0:N])
#pragma acc exit data delete(p)
    CHECK(acc_is_present(p, N * sizeof *p));
#pragma acc exit data delete(p)
    CHECK(!acc_is_present(p, N * sizeof *p));
#pragma acc enter data copyin(p[0:N])
#pragma acc enter data copyin(p[0:N])
#pragma acc exit data copyout(p) finalize
    CHECK(!acc_is_present(p, N * sizeof *p));

    /* The region around holds it. */
#pragma acc data copy(p[0:N])
    {
#pragma acc exit data delete(p) finalize
        CHECK(acc_is_present(p, N * sizeof *p));
        add(p, N, 1);
    }
    CHECK_EQ(p[N - 1], N + 2);
#pragma acc exit data delete(p)
#pragma acc exit data copyout(p)
    CHECK_EQ(p[N - 1], N + 2);
}

/* The variable itself, where that is present; and a pointer into the middle of an array. */
static void others(int *p)
{
    int *middle = p + 10;
#pragma acc enter data copyin(p[0:N])
#pragma acc enter data copyin(p)
#pragma acc exit data delete(p)
    CHECK(acc_is_present(p, N * sizeof *p));
    CHECK(!acc_is_present(&p, sizeof p));
#pragma acc exit data delete(middle)
    CHECK(acc_is_present(p, N * sizeof *p));
    long number = (long)(size_t)p;
    number += 8;
#pragma acc exit data delete(number)
    CHECK(acc_is_present(p, N * sizeof *p));
#pragma acc exit data delete(p)
    CHECK(!acc_is_present(p, N * sizeof *p));
}

/* Blocks that come to lie at the same address, one after the other. */
static void in_a_loop(void)
{
    for (int k = 0; k < 5; k++) {
        int *p = malloc(N * sizeof *p);
        for (int i = 0; i < N; i++)
            p[i] = k;
#pragma acc enter data copyin(p[0:N])
        add(p, N, k);
#pragma acc update self(p[0:N])
        CHECK_ALL(p, N, 2 * k);
#pragma acc exit data delete(p)
        free(p);
    }
}

static void members(struct vector *v)
{
#pragma acc enter data copyin(v[0:1])
#pragma acc enter data copyin(v->x[0:v->n], v->y[0:v->n])
    int n = v->n;
#pragma acc parallel loop present(v[0:1])
    for (int i = 0; i < n; i++)
        v->x[i] += v->y[i];
#pragma acc exit data copyout(v->x)
    CHECK_ALL(v->x, n, 3);
    CHECK(!acc_is_present(v->x, n * sizeof(double)));
    CHECK(acc_is_present(v, sizeof *v));
#pragma acc exit data delete(v->y) finalize
    CHECK(!acc_is_present(v->y, n * sizeof(double)));
    CHECK(acc_is_present(v, sizeof *v));
#pragma acc exit data delete(v)
    CHECK(!acc_is_present(v, sizeof *v));
}

/* GCC counts `s` for its members, where they are named by the variable. */
static void members_of_a_variable(void)
{
    struct vector s = {20, malloc(20 * sizeof(double)), malloc(20 * sizeof(double))};
    for (int way = 0; way < 3; way++) {
        for (int i = 0; i < s.n; i++)
            s.x[i] = 1, s.y[i] = 2;
        if (way == 0) {
#pragma acc enter data copyin(s) copyin(s.x[0:20], s.y[0:20])
        } else if (way == 1) {
#pragma acc enter data copyin(s)
#pragma acc enter data copyin(s.x[0:20])
#pragma acc enter data copyin(s.y[0:20])
        } else {
#pragma acc enter data copyin(s.x[0:20])
#pragma acc enter data copyin(s.y[0:20])
#pragma acc enter data copyin(s)
        }
#pragma acc parallel loop present(s)
        for (int i = 0; i < 20; i++)
            s.x[i] += s.y[i];
#pragma acc exit data copyout(s.x)
        CHECK_ALL(s.x, 20, 3);
        CHECK(!acc_is_present(s.x, 160));
        CHECK(acc_is_present(s.y, 160));
        CHECK(acc_is_present(&s, sizeof s));
#pragma acc exit data delete(s.y)
        CHECK(!acc_is_present(s.y, 160));
        CHECK(acc_is_present(&s, sizeof s));
#pragma acc exit data delete(s)
        CHECK(!acc_is_present(&s, sizeof s));
    }
    /* Without the object. */
#pragma acc enter data copyin(s.x[0:20])
#pragma acc exit data delete(s.x)
    CHECK(!acc_is_present(s.x, 160));
    CHECK(!acc_is_present(&s.x, 8));
    free(s.x);
    free(s.y);
}

int main(void)
{
    int *p = malloc(N * sizeof *p);
    plain(p);
    others(p);
    in_a_loop();
    struct vector v = {50, malloc(50 * sizeof(double)), malloc(50 * sizeof(double))};
    for (int i = 0; i < v.n; i++)
        v.x[i] = 1, v.y[i] = 2;
    members(&v);
    members_of_a_variable();
    return pass();
}
