// `present(p)` of a pointer asks for the pointer variable, 8 bytes on the stack. What is meant is the array.
// BUILD core
#include "check.h"

enum { N = 100 };

static void in_region(int *p, int n)
{
#pragma acc parallel loop present(p)
    for (int i = 0; i < n; i++)
        p[i] += 1;
}

static void asynchronous(int *p, int n)
{
#pragma acc parallel loop present(p) async(3)
    for (int i = 0; i < n; i++)
        p[i] += 1;
#pragma acc wait(3)
}

static void in_kernels(int *p, int n)
{
#pragma acc kernels present(p)
    for (int i = 0; i < n; i++)
        p[i] += 1;
}

static void in_data(int *p, int n)
{
#pragma acc data present(p)
    {
#pragma acc parallel loop
        for (int i = 0; i < n; i++)
            p[i] += 1;
#pragma acc kernels
        for (int i = 0; i < n; i++)
            p[i] += 1;
#pragma acc parallel loop present(p)
        for (int i = 0; i < n; i++)
            p[i] += 1;
#pragma acc serial loop default(present)
        for (int i = 0; i < n; i++)
            p[i] += 1;
#pragma acc parallel loop copy(p[0:n])
        for (int i = 0; i < n; i++)
            p[i] += 1;
#pragma acc update self(p[0:n])
    }
}

static void declared(int *p, int n)
{
#pragma acc declare present(p)
#pragma acc parallel loop
    for (int i = 0; i < n; i++)
        p[i] += 1;
}

static void not_created(int *p, int n)
{
#pragma acc parallel loop no_create(p)
    for (int i = 0; i < n; i++)
        p[i] += 1;
}

int main(void)
{
    int *p = malloc(N * sizeof *p), *same = p;
    for (int i = 0; i < N; i++)
        p[i] = i;
#pragma acc enter data copyin(p[0:N])
    in_region(p, N);
    asynchronous(p, N);
    in_kernels(p, N);
    in_data(p, N);
    declared(p, N);
    not_created(p, N);
    /* A part of it, by a pointer into the middle. */
    in_region(p + 50, 10);
    in_data(p + 50, 10);
    CHECK(p == same);
    CHECK(acc_is_present(&p, sizeof p) == WANT(0, 1));
#pragma acc exit data copyout(p[0:N])
    for (int i = 0; i < N; i++)
        CHECK_EQ(p[i], i + 10 + (i >= 50 && i < 60 ? 6 : 0));
    CHECK(acc_is_present(p, N * sizeof *p) == WANT(0, 1));
    return pass();
}
