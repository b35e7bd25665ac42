// ACCORD_UNMAPPED=map: pointers to local arrays and to static ones, which no clause maps.
// RUN env=ACCORD_UNMAPPED=map
#include "check.h"

enum { N = 500 };

static int table[N];
double global[N];

__attribute__((noinline)) static void count(int *a, int n, int from)
{
#pragma acc parallel loop
    for (int i = 0; i < n; i++)
        a[i] = from + i;
}

__attribute__((noinline)) static double total(const double *a, const int *b, int n)
{
    double sum = 0;
#pragma acc kernels loop reduction(+ : sum)
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

int main(void)
{
    int local[N];
    double weights[N];
    volatile int guard = 12345;
    for (int i = 0; i < N; i++) {
        local[i] = table[i] = -1;
        weights[i] = global[i] = 2;
    }
    count(local, N, 10);
    count(table + 100, N - 100, 0);
    for (int i = 0; i < N; i++)
        CHECK(local[i] == 10 + i && table[i] == (i < 100 ? -1 : i - 100));
    CHECK(total(weights, local, N) == 2.0 * (10 * N + N * (N - 1) / 2));
    CHECK(total(global + 1, table + 100, N - 100) == (N - 100) * (N - 101.0));
    CHECK(guard == 12345);
    return pass();
}
