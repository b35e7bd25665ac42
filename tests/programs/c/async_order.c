// Operations of one queue run in order (2.16).
// BUILD core
#include "check.h"

int main(void)
{
    enum { N = 1000 };
    static int a[N];
#pragma acc data copy(a)
    {
        for (int round = 0; round < 20; round++) {
#pragma acc parallel loop present(a) async(1)
            for (int i = 0; i < N; i++)
                a[i] = a[i] * 2 + round % 2;
        }
#pragma acc update self(a) async(1)
#pragma acc wait(1)
        int want = 0;
        for (int round = 0; round < 20; round++)
            want = want * 2 + round % 2;
        CHECK_ALL(a, N, want);
    }
    return pass();
}
