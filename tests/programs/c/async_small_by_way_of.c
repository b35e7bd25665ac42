// Parts of a small variable that one queue changes after another, which waited for it by way of a third.
#include "check.h"

int main(void)
{
    int a[8];
    for (int i = 0; i < 8; i++)
        a[i] = 1;
#pragma acc parallel loop copy(a) async(3)
    for (int i = 0; i < 8; i++)
        a[i] = a[i] * 3 + 985;
#pragma acc wait(3) async(2)
#pragma acc parallel loop copyout(a[2:2]) async(2)
    for (int i = 2; i < 4; i++)
        a[i] = 7;
#pragma acc wait(2) async(1)
#pragma acc parallel loop copy(a[6:1]) async(1)
    for (int i = 6; i < 7; i++)
        a[i] = a[i] * 2 + 944;
#pragma acc wait
    for (int i = 0; i < 8; i++)
        CHECK_EQ(a[i], i == 6 ? 2920 : i == 2 || i == 3 ? 7 : 988);
    return pass();
}
