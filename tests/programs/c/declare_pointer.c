// A pointer with `declare create`, whose array a data clause brings: routines and regions find the array by the device's own
// pointer (2.7.2, attach action), also after the pointer goes to another array.
// EXPECT device-memory
#include "check.h"

enum { N = 200 };

double *p, *q;
long n;
#pragma acc declare create(p, q, n)

#pragma acc routine seq
double get(int i);
#pragma acc routine seq
double get(int i)
{
    return p[i] * (double)n;
}

static double *numbers(double first)
{
    double *made = malloc(N * sizeof *made);
    for (int i = 0; i < N; i++)
        made[i] = first + i;
    return made;
}

static void check(double first)
{
    double out[N], two[N];
#pragma acc parallel loop copyout(out)
    for (int i = 0; i < N; i++)
        out[i] = get(i);
#pragma acc parallel loop copyout(two) present(p[0:N])
    for (int i = 0; i < N; i++)
        two[i] = p[i] + 1;
    for (int i = 0; i < N; i++) {
        CHECK_EQ(out[i], n * (first + i));
        CHECK_EQ(two[i], first + i + 1);
    }
}

int main(void)
{
    n = 3;
    acc_update_device(&n, sizeof n);
    double *a = p = numbers(10), *b = q = numbers(1000);
#pragma acc enter data copyin(p[0:N])
    check(10);
#pragma acc enter data copyin(q[0:N]) async(2)
#pragma acc parallel loop async(2)
    for (int i = 0; i < N; i++)
        q[i] += 1;
#pragma acc wait(2)
    /* The program's own address comes to the device, and is the device's again. */
    acc_update_device(&p, sizeof p);
    check(10);
    p = b, q = a;
    acc_update_device(&p, sizeof p);
    acc_update_device(&q, sizeof q);
    check(1001);
#pragma acc parallel loop present(q[0:N])
    for (int i = 0; i < N; i++)
        q[i] = -i;
#pragma acc exit data copyout(q[0:N], p[0:N])
    CHECK_EQ(a[9], -9);
    CHECK_EQ(b[9], 1010);
    /* Brought by the region itself, and by a data region. */
    p = a;
    double sum = 0;
#pragma acc parallel loop copy(p[0:N]) reduction(+ : sum)
    for (int i = 0; i < N; i++) {
        p[i] = i;
        sum += get(i) / (double)n;
    }
    CHECK_EQ(sum, N * (N - 1) / 2);
#pragma acc data copyin(p[0:N])
    check(0);
    return pass();
}
