// Regions that get pointers to heap blocks which nothing maps, as programs for unified memory hand them over.
// With ACCORD_UNMAPPED=map each block is mapped around the region, wherever in it the pointer points.
// RUN env=ACCORD_UNMAPPED=map
#include "check.h"

enum { N = 1000 };

static void fill(double *a, int n, double value)
{
#pragma acc parallel loop
    for (int i = 0; i < n; i++)
        a[i] = value + i;
}

static void add(double *restrict a, const double *b, int n)
{
#pragma acc kernels loop independent
    for (int i = 0; i < n; i++)
        a[i] += b[i];
}

static double sum(const double *a, int from, int n)
{
    double s = 0;
#pragma acc parallel loop reduction(+ : s)
    for (int i = 0; i < n; i++)
        s += a[from + i];
    return s;
}

/* One block, by three pointers. */
static void thirds(double *a, double *b, double *c, int n)
{
#pragma acc parallel loop
    for (int i = 0; i < n; i++) {
        a[i] = 1;
        b[i] = 2;
        c[i] = 3;
    }
}

/* A pointer that counts from one. */
static void from_one(double *a, int n)
{
    double *one = a - 1;
#pragma acc parallel loop
    for (int i = 1; i <= n; i++)
        one[i] = -i;
}

/* The variable is named as if it were the array. */
static void named(int n, double (*a)[n], double *b)
{
#pragma acc data copy(a) create(b)
    {
#pragma acc parallel loop present(b)
        for (int i = 0; i < n; i++)
            b[i] = i;
#pragma acc parallel loop
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                a[i][j] = b[i] * 10 + j;
    }
}

static int unused(double *p, int x)
{
    int y = 0;
#pragma acc parallel copy(y)
    {
        if (x < 0)
            p[0] = 1;
        y = x + 1;
    }
    return y;
}

int main(void)
{
    double *a = malloc(N * sizeof *a), *b = calloc(N, sizeof *b);
    void *aligned;
    CHECK_EQ(posix_memalign(&aligned, 64, 3 * N * sizeof *a), 0);
    double *c = aligned;
    a = realloc(a, 2 * N * sizeof *a);

    fill(a, 2 * N, 0);
    fill(b, N, 5);
    for (int i = 0; i < N; i++)
        CHECK(a[i] == i && b[i] == 5 + i);
    add(a, b, N);
    add(a + N, b, N / 2);
    for (int i = 0; i < N; i++)
        CHECK(a[i] == 2 * i + 5 && b[i] == 5 + i && a[N + i] == N + i + (i < N / 2 ? i + 5 : 0));
    CHECK(sum(b + 10, -10, N) == N * 5 + N * (N - 1) / 2);
    thirds(c, c + N, c + 2 * N, N);
    for (int i = 0; i < 3 * N; i++)
        CHECK(c[i] == 1 + i / N);
    from_one(c + N, N);
    from_one(a, N);
    for (int i = 0; i < N; i++)
        CHECK(c[i] == 1 && c[N + i] == -(i + 1) && c[2 * N + i] == 3 && a[i] == -(i + 1));

    double (*square)[20] = malloc(20 * sizeof *square);
    named(20, square, b);
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 20; j++)
            CHECK(square[i][j] == i * 10 + j);
    CHECK(b[0] == 0 && b[19] == 19 && b[20] == 25);

    CHECK_EQ(unused(a, 41), 42);
    CHECK_EQ(unused(NULL, 41), 42);
    free(square);
    free(a);
    free(b);
    free(c);
    return pass();
}
