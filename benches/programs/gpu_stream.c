/* Kernels that memory bounds: the same binary under Accord and under stock libgomp.
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_stream.c -ldl */
#include "gpu_raw.h"
#include <openacc.h>

enum { ROUNDS = 15 };

static void triad(double *restrict a, const double *restrict b, const double *restrict c, double s, long n)
{
#pragma acc parallel loop present(a[0:n], b[0:n], c[0:n])
    for (long i = 0; i < n; i++)
        a[i] = b[i] + s * c[i];
}

static double dot(const double *restrict a, const double *restrict b, long n)
{
    double sum = 0;
#pragma acc parallel loop present(a[0:n], b[0:n]) reduction(+ : sum)
    for (long i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void sweep(double *restrict to, const double *restrict from, long rows, long columns)
{
    long n = rows * columns;
#pragma acc parallel loop gang worker present(to[0:n], from[0:n])
    for (long y = 1; y < rows - 1; y++)
#pragma acc loop vector
        for (long x = 1; x < columns - 1; x++)
            to[y * columns + x] = 0.25 * (from[y * columns + x - 1] + from[y * columns + x + 1] + from[(y - 1) * columns + x] +
                                          from[(y + 1) * columns + x]);
}

int main(int argc, char **argv)
{
    long size = argc > 1 ? atol(argv[1]) : 8192, n = size * size;
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c), ms[ROUNDS], sum = 0;
    for (long i = 0; i < n; i++)
        a[i] = 0.1, b[i] = 0.2, c[i] = 0.3;
    double start = now_us();
#pragma acc enter data copyin(a[0:n], b[0:n], c[0:n])
    const char *names[] = { "triad", "dot", "sweep" };
    for (int kind = 0; kind < 3; kind++) {
        for (int r = -3; r < ROUNDS; r++) {
            double t = now_us();
            if (kind == 0)
                triad(a, b, c, 0.4, n);
            else if (kind == 1)
                sum = dot(a, b, n);
            else
                sweep(a, b, size, size);
            if (r >= 0)
                ms[r] = (now_us() - t) / 1e3;
        }
        report("kernels", names[kind], "ms", ms, ROUNDS);
    }
#pragma acc exit data copyout(a[0:n]) delete(b[0:n], c[0:n])
    double whole = (now_us() - start) / 1e3;
    report("kernels", "all, with copies", "ms", &whole, 1);
    int right = sum > 0.0639 * n && sum < 0.0641 * n && a[size + 1] > 0.199 && a[size + 1] < 0.201;
    printf("{\"bench\": \"kernels\", \"what\": \"right\", \"value\": %d}\n", right);
    return !right;
}
