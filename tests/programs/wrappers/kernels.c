/* kernels constructs that accord cc opens: nests of their own, scalars, host control flow, statements between loops, queues. */
#include "kernels.h"
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) ((what) ? (void)0 : (printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #what), exit(1)))

enum { N = 100, M = 20 };
static double grid[N][M], next[N][M];
static int steps;

static double sum_of(int n, int m, double by)
{
    double s = 1, t;
    int i, j;
#pragma acc kernels present(grid)
    {
#pragma acc loop independent
        for (i = 0; i < n; i++) {
            t = by * i;
#pragma acc loop independent
            for (j = 0; j < m; j++)
                grid[i][j] = t + j;
        }
        grid[3][4] = -1;
        if (by > 1)
            for (i = 0; i < n; i++)
                for (j = 0; j < m; j++)
                    s += grid[i][j];
    }
    return s;
}

/* A loop over time stays on the host, and carries a dependence; the index is used afterwards. */
static int relax(int n, int m, int times)
{
    int i, j, k;
#pragma acc kernels copy(grid) create(next)
    for (k = 0; k < times; k++) {
        for (i = 1; i < n - 1; i++)
            for (j = 1; j < m - 1; j++)
                next[i][j] = 0.25 * (grid[i - 1][j] + grid[i + 1][j] + grid[i][j - 1] + grid[i][j + 1]);
        for (i = 1; i < n - 1; i++)
            for (j = 1; j < m - 1; j++)
                grid[i][j] = next[i][j];
        steps = steps + 1;
    }
    return i;
}

static void relax_on_host(double (*a)[M], double (*b)[M], int times)
{
    for (int k = 0; k < times; k++) {
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < M - 1; j++)
                b[i][j] = 0.25 * (a[i - 1][j] + a[i + 1][j] + a[i][j - 1] + a[i][j + 1]);
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < M - 1; j++)
                a[i][j] = b[i][j];
    }
}

/* Each element needs the one before: it stays as it is. */
static void running(double *restrict a, int n)
{
#pragma acc kernels copy(a[0:n])
    for (int i = 1; i < n; i++)
        a[i] = a[i - 1] + 1;
}

static double queued(double *restrict a, double *restrict b, int n)
{
    double most = -1;
#pragma acc kernels copy(a[0:n]) create(b[0:n]) async(3)
    {
        for (int i = 0; i < n; i++)
            b[i] = 2 * a[i];
        for (int i = 0; i < n; i++) {
            a[i] = b[i] + 1;
            if (a[i] > most)
                most = a[i];
        }
    }
#pragma acc wait(3)
    return most;
}

/* One part, in a queue: its data and its sum go with it. */
static double queued_sum(const double *restrict a, int n)
{
    double s = 0;
#pragma acc kernels loop independent reduction(+ : s) copyin(a[0:n]) copy(s) async(1)
    for (int i = 0; i < n; i++)
        s += a[i];
#pragma acc wait(1)
    return s;
}

int main(void)
{
    double *a = (double *)malloc(N * sizeof *a), *b = (double *)malloc(N * sizeof *b);
    static double here[N][M], spare[N][M];
    double s, expected = 1;

#pragma acc data copy(grid)
    s = sum_of(N, M, 2);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++) {
            here[i][j] = i == 3 && j == 4 ? -1 : 2 * i + j;
            expected += here[i][j];
            CHECK(grid[i][j] == here[i][j]);
        }
    CHECK(s == expected);

    CHECK(relax(N, M, 4) == N - 1 && steps == 4);
    relax_on_host(here, spare, 4);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            CHECK(grid[i][j] == here[i][j]);

    FILL(N, 0.5);
    for (int i = 0; i < N; i++)
        a[i] = filled[i];
    scale(b, a, N, 3);
    CHECK(a[7] == 7.5 && b[99] == 99.5 * 3);
    running(a, N);
    CHECK(a[0] == 0.5 && a[99] == 99.5);
    CHECK(queued(a, b, N) == 2 * 99.5 + 1 && a[1] == 4);
    CHECK(queued_sum(a, N) == 10100 && a[0] == 2);
    free(a);
    free(b);
    puts("PASS");
    return 0;
}
