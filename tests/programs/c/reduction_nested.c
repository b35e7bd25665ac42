// A reduction over gangs, workers and vector lanes, and a reduction variable in a data clause outside.
#include "check.h"

int main(void)
{
    enum { N = 30 };
    double m[N][N], total = 0, rows[N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            m[i][j] = i + j;
#pragma acc data copyin(m) copy(total) copyout(rows)
    {
#pragma acc parallel loop gang reduction(+ : total)
        for (int i = 0; i < N; i++) {
            double row = 0;
#pragma acc loop worker vector reduction(+ : row)
            for (int j = 0; j < N; j++)
                row += m[i][j];
            rows[i] = row;
            total += row;
        }
    }
    CHECK_EQ(total, N * N * (N - 1));
    for (int i = 0; i < N; i++)
        CHECK_EQ(rows[i], N * i + N * (N - 1) / 2);
    return pass();
}
