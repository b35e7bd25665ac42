// Sections that begin before or behind what a pointer points to: arrays from 1, around a middle, rows by an offset pointer (2.7.1).
#include "check.h"

static void from_one(double *restrict a, double *restrict b, int n)
{
#pragma acc parallel loop copyin(a[1:n]) copyout(b[1:n])
    for (int i = 1; i <= n; i++)
        b[i] = 2 * a[i];
}

static void around(int *middle, int n)
{
#pragma acc parallel loop copy(middle[-n:2*n+1])
    for (int i = -n; i <= n; i++)
        middle[i] += i;
}

static void rows(int (*m)[7], int first, int count)
{
#pragma acc data copy(m[first:count])
    {
#pragma acc parallel loop collapse(2) present(m[first:count])
        for (int i = first; i < first + count; i++)
            for (int j = 0; j < 7; j++)
                m[i][j] += 10 * i + j;
#pragma acc update self(m[first+1:1])
        CHECK_EQ(m[first + 1][3], 10 * (first + 1) + 3);
    }
}

int main(void)
{
    double x[51], y[51];
    for (int i = 0; i < 51; i++) {
        x[i] = i;
        y[i] = -1;
    }
    from_one(x, y, 50);
    CHECK_EQ(y[0], -1.0);
    for (int i = 1; i < 51; i++)
        CHECK_EQ(y[i], 2.0 * i);
    from_one(x - 1, y - 1, 51);
    CHECK_EQ(y[0], 0.0);
    int v[21] = {0};
    around(v + 10, 8);
    for (int i = 0; i < 21; i++)
        CHECK_EQ(v[i], i >= 2 && i <= 18 ? i - 10 : 0);
    static int m[20][7];
    rows(m, 5, 6);
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 7; j++)
            CHECK_EQ(m[i][j], i >= 5 && i < 11 ? 10 * i + j : 0);
    return pass();
}
