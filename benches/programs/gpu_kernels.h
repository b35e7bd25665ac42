/* The loops of gpu_kernels.c for one type: REAL, and NAME(x) for the names. */

static void NAME(copy)(REAL *restrict c, const REAL *restrict a, long n)
{
#pragma acc parallel loop present(a[0:n], c[0:n])
    for (long i = 0; i < n; i++)
        c[i] = a[i];
}

static void NAME(mul)(REAL *restrict b, const REAL *restrict c, REAL s, long n)
{
#pragma acc parallel loop present(b[0:n], c[0:n])
    for (long i = 0; i < n; i++)
        b[i] = s * c[i];
}

static void NAME(add)(REAL *restrict c, const REAL *restrict a, const REAL *restrict b, long n)
{
#pragma acc parallel loop present(a[0:n], b[0:n], c[0:n])
    for (long i = 0; i < n; i++)
        c[i] = a[i] + b[i];
}

static void NAME(triad)(REAL *restrict a, const REAL *restrict b, const REAL *restrict c, REAL s, long n)
{
#pragma acc parallel loop present(a[0:n], b[0:n], c[0:n])
    for (long i = 0; i < n; i++)
        a[i] = b[i] + s * c[i];
}

static REAL NAME(dot)(const REAL *restrict a, const REAL *restrict b, long n)
{
    REAL sum = 0;
#pragma acc parallel loop present(a[0:n], b[0:n]) reduction(+ : sum)
    for (long i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static REAL NAME(sum)(const REAL *restrict a, long n)
{
    REAL sum = 0;
#pragma acc parallel loop present(a[0:n]) reduction(+ : sum)
    for (long i = 0; i < n; i++)
        sum += a[i];
    return sum;
}

/* Rows for gangs, columns for vectors. */
static void NAME(stencil)(REAL *restrict to, const REAL *restrict from, int n)
{
#pragma acc parallel loop gang present(to[0:n * n], from[0:n * n])
    for (int y = 1; y < n - 1; y++)
#pragma acc loop vector
        for (int x = 1; x < n - 1; x++)
            to[y * n + x] = (REAL)0.2 * (from[y * n + x] + from[y * n + x - 1] + from[y * n + x + 1] + from[(y - 1) * n + x] +
                                         from[(y + 1) * n + x]);
}

static void NAME(stencil_collapsed)(REAL *restrict to, const REAL *restrict from, int n)
{
#pragma acc parallel loop collapse(2) present(to[0:n * n], from[0:n * n])
    for (int y = 1; y < n - 1; y++)
        for (int x = 1; x < n - 1; x++)
            to[y * n + x] = (REAL)0.2 * (from[y * n + x] + from[y * n + x - 1] + from[y * n + x + 1] + from[(y - 1) * n + x] +
                                         from[(y + 1) * n + x]);
}

/* A row a thread. */
static void NAME(spmv)(REAL *restrict y, const REAL *restrict x, const REAL *restrict value, const int *restrict column,
                       const int *restrict first, int rows)
{
#pragma acc parallel loop present(y[0:rows], x[0:rows], value, column, first[0:rows + 1])
    for (int row = 0; row < rows; row++) {
        REAL sum = 0;
        for (int k = first[row]; k < first[row + 1]; k++)
            sum += value[k] * x[column[k]];
        y[row] = sum;
    }
}

/* A row a vector. */
static void NAME(spmv_vector)(REAL *restrict y, const REAL *restrict x, const REAL *restrict value, const int *restrict column,
                              const int *restrict first, int rows)
{
#pragma acc parallel loop gang present(y[0:rows], x[0:rows], value, column, first[0:rows + 1])
    for (int row = 0; row < rows; row++) {
        REAL sum = 0;
#pragma acc loop vector reduction(+ : sum)
        for (int k = first[row]; k < first[row + 1]; k++)
            sum += value[k] * x[column[k]];
        y[row] = sum;
    }
}
