// serial: one gang, one worker, one lane (2.5.2).
#include "check.h"

int main(void)
{
    int fib[30];
#pragma acc serial copyout(fib)
    {
        fib[0] = 0;
        fib[1] = 1;
        for (int i = 2; i < 30; i++)
            fib[i] = fib[i - 1] + fib[i - 2];
    }
    CHECK_EQ(fib[29], 514229);
#pragma acc serial loop copy(fib)
    for (int i = 0; i < 30; i++)
        fib[i] += i;
    CHECK_EQ(fib[29], 514258);
    return pass();
}
