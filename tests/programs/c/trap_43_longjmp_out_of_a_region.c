// longjmp leaves a data region without ending it: what comes after must still nest and work.
#include "check.h"
#include <setjmp.h>

static jmp_buf out;
static int a[8], b[8];

static void jump(void)
{
#pragma acc data copyin(a)
    longjmp(out, 1);
}

int main(void)
{
    if (setjmp(out) == 0)
        jump();
#pragma acc data copy(b)
    {
#pragma acc parallel loop present(b)
        for (int i = 0; i < 8; i++)
            b[i] = i;
    }
    for (int i = 0; i < 8; i++)
        CHECK_EQ(b[i], i);
    CHECK_EQ(acc_is_present(b, sizeof b), WANT(0, 1));
    return pass();
}
