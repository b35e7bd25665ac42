// Routines at every level, in this file and as function calls of calls (2.15.1).
#include "check.h"

#pragma acc routine seq
__attribute__((noinline)) static int square(int x)
{
    return x * x;
}

#pragma acc routine vector
__attribute__((noinline)) static void fill_row(int *row, int n, int k)
{
#pragma acc loop vector
    for (int i = 0; i < n; i++)
        row[i] = square(k) + i;
}

#pragma acc routine worker
__attribute__((noinline)) static void fill_rows(int *rows, int n)
{
#pragma acc loop worker
    for (int k = 0; k < n; k++)
        fill_row(rows + k * n, n, k);
}

int main(void)
{
    enum { N = 12 };
    static int a[N * N], b[N * N];
#pragma acc parallel loop gang copyout(a)
    for (int k = 0; k < N; k++)
        fill_row(a + k * N, N, k);
#pragma acc parallel num_gangs(1) copyout(b)
    fill_rows(b, N);
    for (int k = 0; k < N; k++)
        for (int i = 0; i < N; i++) {
            CHECK_EQ(a[k * N + i], k * k + i);
            CHECK_EQ(b[k * N + i], k * k + i);
        }
    return pass();
}
