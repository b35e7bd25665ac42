// Every form of the wait directive, queues never used included (2.16.3).
#include "check.h"

int main(void)
{
    enum { N = 64 };
    static int a[N], b[N], c[N], d[N];
    int q = 2;
#pragma acc wait
#pragma acc wait(77)
#pragma acc data create(a, b, c, d)
    {
#pragma acc parallel loop async(1)
        for (int i = 0; i < N; i++)
            a[i] = i;
#pragma acc parallel loop async(q)
        for (int i = 0; i < N; i++)
            b[i] = 10;
#pragma acc parallel loop async(4)
        for (int i = 0; i < N; i++)
            d[i] = 1000;
#pragma acc wait(1, q) async(3)
#pragma acc parallel loop async(3)
        for (int i = 0; i < N; i++)
            c[i] = a[i] + b[i];
#pragma acc wait(3) async(3)
#pragma acc wait async(3)
#pragma acc parallel loop async(3)
        for (int i = 0; i < N; i++)
            c[i] += d[i];
#pragma acc wait async
#pragma acc parallel loop async
        for (int i = 0; i < N; i++)
            c[i] += 100000;
#pragma acc update self(c) async
#pragma acc wait
        for (int i = 0; i < N; i++)
            CHECK_EQ(c[i], i + 101010);
#pragma acc wait(1, 2, 3, 4, 5, 6, 7, 8, 9)
#pragma acc wait(9, 8, 7, 6, 5, 4, 3, 2, 1) async(30)
#pragma acc wait(30)
    }
    return pass();
}
