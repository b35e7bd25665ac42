// Unions, bit fields, enumerations, complex numbers, 128-bit integers and large structures, copied and firstprivate (2.5.14).
#include "check.h"
#include <complex.h>

union word {
    int i;
    float f;
    char c[8];
};

struct bits {
    unsigned a : 3, b : 7;
    int c : 22;
    _Bool d;
};

struct large {
    double x[40];
    int n;
};

enum colour { RED, GREEN = 7, BLUE };

int main(void)
{
    union word word = {.i = 5};
    struct bits bits = {5, 100, -3, 1}, all[8];
    struct large large = {.n = 40};
    enum colour colour = BLUE;
    __int128 wide = ((__int128)1 << 100) + 7, wider = 0;
    double complex z[10], factor = 2 + 3 * I;
    float complex s = 0;
    double sum = 0;
    int out = 0;
    for (int i = 0; i < 40; i++)
        large.x[i] = i;
    for (int i = 0; i < 10; i++)
        z[i] = i;
    for (int i = 0; i < 8; i++)
        all[i] = (struct bits){i, i * 2, -i, i & 1};
#pragma acc parallel firstprivate(word, bits, large, colour, wide) copy(out, sum, wider)
    {
        word.i += bits.a + bits.b + bits.c + bits.d + colour;
        out = word.i;
        double t = 0;
        for (int i = 0; i < large.n; i++)
            t += large.x[i];
        sum = t;
        wider = wide + 1;
    }
    CHECK_EQ(out, 5 + 5 + 100 - 3 + 1 + 8);
    CHECK_EQ(sum, 780.0);
    CHECK(wider == wide + 1);
    CHECK_EQ(word.i, 5);
#pragma acc parallel loop copy(z)
    for (int i = 0; i < 10; i++)
        z[i] *= factor;
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(creal(z[i]), 2.0 * i);
        CHECK_EQ(cimag(z[i]), 3.0 * i);
    }
#pragma acc parallel loop reduction(+ : s)
    for (int i = 0; i < 10; i++)
        s += i + 2 * i * I;
    CHECK_EQ(crealf(s), 45.0f);
    CHECK_EQ(cimagf(s), 90.0f);
#pragma acc parallel loop copy(all)
    for (int i = 0; i < 8; i++) {
        all[i].a ^= 7;
        all[i].c -= 1;
        all[i].d = !all[i].d;
    }
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(all[i].a, (unsigned)(i ^ 7));
        CHECK_EQ(all[i].b, (unsigned)(i * 2));
        CHECK_EQ(all[i].c, -i - 1);
        CHECK_EQ(all[i].d, !(i & 1));
    }
    return pass();
}
