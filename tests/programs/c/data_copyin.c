// `copyin`: in at entry, nothing at exit (2.7.7).
#include "check.h"

int main(void)
{
    int a[100], sum = 0;
    for (int i = 0; i < 100; i++)
        a[i] = 1;
#pragma acc parallel loop copyin(a) reduction(+ : sum)
    for (int i = 0; i < 100; i++) {
        sum += a[i];
        a[i] = 7;
    }
    CHECK_EQ(sum, 100);
    CHECK_ALL(a, 100, WANT(1, 7));
    return pass();
}
