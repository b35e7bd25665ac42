// Reductions: operators and types (2.5.15, 2.9.11).
#include "check.h"

int main(void)
{
    enum { N = 40 };
    int a[N], sum = 5, low = 1000, high = -1000, bits_and = -1, bits_or = 0, bits_xor = 0, all = 1, any = 0;
    long product = 1;
    float fsum = 0;
    double dmax = -1;
    for (int i = 0; i < N; i++)
        a[i] = i + 1;
#pragma acc data copyin(a)
    {
#pragma acc parallel loop reduction(+ : sum, fsum) reduction(min : low) reduction(max : high, dmax)
        for (int i = 0; i < N; i++) {
            sum += a[i];
            fsum += a[i] * 0.5f;
            low = a[i] < low ? a[i] : low;
            high = a[i] > high ? a[i] : high;
            dmax = a[i] * 1.25 > dmax ? a[i] * 1.25 : dmax;
        }
#pragma acc parallel loop reduction(* : product)
        for (int i = 0; i < 12; i++)
            product *= a[i];
#pragma acc parallel loop reduction(& : bits_and) reduction(| : bits_or) reduction(^ : bits_xor)
        for (int i = 0; i < N; i++) {
            bits_and &= a[i] | 64;
            bits_or |= a[i];
            bits_xor ^= a[i];
        }
#pragma acc parallel loop reduction(&& : all) reduction(|| : any)
        for (int i = 0; i < N; i++) {
            all = all && a[i] > 0;
            any = any || a[i] == 17;
        }
    }
    int want_xor = 0;
    for (int i = 0; i < N; i++)
        want_xor ^= i + 1;
    CHECK_EQ(sum, 825);
    CHECK_EQ(fsum, 410);
    CHECK_EQ(low, 1);
    CHECK_EQ(high, 40);
    CHECK_EQ(dmax, 50);
    CHECK_EQ(product, 479001600);
    CHECK_EQ(bits_and, 64);
    CHECK_EQ(bits_or, 63);
    CHECK_EQ(bits_xor, want_xor);
    CHECK_EQ(all, 1);
    CHECK_EQ(any, 1);
    return pass();
}
