// `firstprivate` and implicit scalars: each region gets the value of its own start (2.5.14).
#include "check.h"

struct big { long a; double b; char c[16]; };

int main(void)
{
    struct big t = {1, 2.5, "abc"};
    _Complex double z = 3.0 + 4.0i;
    long long l = 1LL << 40;
    char c = 'x';
    double out[6];
#pragma acc parallel firstprivate(t, z, l, c) copyout(out)
    {
        out[0] = t.a;
        out[1] = t.b;
        out[2] = t.c[1];
        out[3] = __real__ z + __imag__ z;
        out[4] = (double)l;
        out[5] = c;
        t.a = 99;
        l = 0;
    }
    CHECK_EQ(out[0], 1);
    CHECK_EQ(out[1], 2.5);
    CHECK_EQ(out[2], 'b');
    CHECK_EQ(out[3], 7);
    CHECK_EQ(out[4], 1099511627776.0);
    CHECK_EQ(out[5], 'x');
    CHECK_EQ(t.a, 1);
    CHECK_EQ(l, 1LL << 40);
    for (int k = 0; k < 5; k++) {
        int got = -1;
#pragma acc parallel copyout(got)
        got = k * k;
        CHECK_EQ(got, k * k);
    }
    return pass();
}
