/* Results that all gangs update: reductions and atomic updates, the same binary under Accord and under stock libgomp.
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_reductions.c -ldl
   Argument: how many numbers, in Mi. */
#include "gpu_raw.h"
#include <openacc.h>

enum { ROUNDS = 9, BINS = 1024 };

#define PRAGMA(text) _Pragma(#text)

/* Times a reduction of n numbers; its value is to be `want`, which a sum of floats only comes near to. */
#define REDUCE(name, type, start, operator, wanted, update)                                       \
    do {                                                                                          \
        double ms[ROUNDS];                                                                        \
        type s = (start);                                                                         \
        for (int r = -2; r < ROUNDS; r++) {                                                       \
            double t = now_us();                                                                  \
            s = (start);                                                                          \
            PRAGMA(acc parallel loop present(a[0:n], f[0:n], k[0:n]) reduction(operator: s))      \
            for (long i = 0; i < n; i++)                                                          \
                update;                                                                           \
            if (r >= 0)                                                                           \
                ms[r] = (now_us() - t) / 1e3;                                                     \
        }                                                                                         \
        report("reductions", name, "ms", ms, ROUNDS);                                             \
        double off = (double)s / (wanted) - 1;                                                    \
        right &= off < 1e-3 && off > -1e-3;                                                       \
    } while (0)

int main(int argc, char **argv)
{
    long n = (argc > 1 ? atol(argv[1]) : 64) << 20;
    double *a = malloc(n * sizeof *a), bins[BINS] = { 0 }, ms[ROUNDS];
    float *f = malloc(n * sizeof *f);
    int *k = malloc(n * sizeof *k), right = 1;
    for (long i = 0; i < n; i++)
        a[i] = 0.5 + i % 2, f[i] = 0.5f + i % 2, k[i] = i % 4;
#pragma acc enter data copyin(a[0:n], f[0:n], k[0:n])
    REDUCE("sum of double", double, 0, +, n, s += a[i]);
    REDUCE("sum of float", float, 0, +, n, s += f[i]);
    REDUCE("sum of int", int, 0, +, n / 2 * 3, s += k[i]);
    REDUCE("greatest double", double, 0, max, 1.5, if (a[i] > s) s = a[i]);
    REDUCE("greatest int", int, 0, max, 3, if (k[i] > s) s = k[i]);
    REDUCE("product of double", double, 1, *, 1, s *= a[i] > 2 ? 2 : 1);
    for (int r = -2; r < ROUNDS; r++) {
        double t = now_us();
#pragma acc parallel loop present(a[0:n]) copy(bins)
        for (long i = 0; i < n / 16; i++) {
#pragma acc atomic update
            bins[i * 31 % BINS] += a[i];
        }
        if (r >= 0)
            ms[r] = (now_us() - t) / 1e3;
    }
    report("reductions", "histogram of double, a 16th of the numbers", "ms", ms, ROUNDS);
    double sum = 0;
    for (int b = 0; b < BINS; b++)
        sum += bins[b];
    right &= sum == (double)(n / 16) * (ROUNDS + 2);
    report_value("reductions", "right", "", right);
#pragma acc exit data delete(a[0:n], f[0:n], k[0:n])
    return !right;
}
