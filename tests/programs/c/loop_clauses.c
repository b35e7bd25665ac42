// collapse, tile, gang(static), private, seq, auto (2.9).
#include "check.h"

int main(void)
{
    enum { N = 24 };
    static int a[N][N], b[N][N], c[N], tmp[4];
#pragma acc parallel loop collapse(2) copyout(a)
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            a[i][j] = i * N + j;
#pragma acc parallel loop tile(4, 4) copyin(a) copyout(b)
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            b[j][i] = a[i][j];
#pragma acc parallel loop gang(static : 2) private(tmp) copyout(c)
    for (int i = 0; i < N; i++) {
#pragma acc loop seq
        for (int k = 0; k < 4; k++)
            tmp[k] = i + k;
        c[i] = tmp[0] + tmp[3];
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++)
            CHECK_EQ(b[j][i], i * N + j);
        CHECK_EQ(c[i], 2 * i + 3);
    }
    CHECK_ALL(tmp, 4, 0);
    return pass();
}
