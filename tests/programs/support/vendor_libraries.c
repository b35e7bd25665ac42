/* In place of NVIDIA's libraries, on the tests' driver, whose memory is the host's. A routine waits for its stream first, as the libraries' work follows
   that of their stream. */
#define _GNU_SOURCE
#include <complex.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

static int wait_for(void *stream)
{
    int (*synchronize)(void *);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    /* Accord passes the streams of its queues, never the driver's default. */
    if (!driver || !stream)
        return 13;
    *(void **)&synchronize = dlsym(driver, "cuStreamSynchronize");
    return synchronize(stream) ? 13 : 0;
}

struct handle {
    void *stream;
};

#define HANDLES(create, destroy, set_stream)              \
    int create(struct handle **handle)                    \
    {                                                     \
        *handle = calloc(1, sizeof **handle);             \
        return 0;                                         \
    }                                                     \
    int destroy(struct handle *handle)                    \
    {                                                     \
        free(handle);                                     \
        return 0;                                         \
    }                                                     \
    int set_stream(struct handle *handle, void *stream)   \
    {                                                     \
        handle->stream = stream;                          \
        return 0;                                         \
    }
HANDLES(cublasCreate_v2, cublasDestroy_v2, cublasSetStream_v2)
HANDLES(cusparseCreate, cusparseDestroy, cusparseSetStream)
HANDLES(cusolverDnCreate, cusolverDnDestroy, cusolverDnSetStream)
HANDLES(create_generator, curandDestroyGenerator, curandSetStream)

struct matrix {
    long rows;
    const int *offsets, *columns;
    const double *values;
};

int cusparseCreateCsr(struct matrix **a, long rows, long columns, long count, const int *offsets, const int *indices, const double *values,
                      int offset_type, int index_type, int base, int kind)
{
    (void)columns, (void)count;
    if (offset_type != 2 || index_type != 2 || base != 0 || kind != 1)
        return 3;
    *a = malloc(sizeof **a);
    **a = (struct matrix){ rows, offsets, indices, values };
    return 0;
}

int cusparseCreateDnVec(double ***x, long size, double *values, int kind)
{
    (void)size;
    *x = malloc(sizeof **x);
    **x = values;
    return kind == 1 ? 0 : 3;
}

int cusparseDestroySpMat(struct matrix *a)
{
    free(a);
    return 0;
}

int cusparseDestroyDnVec(double **x)
{
    free(x);
    return 0;
}

int cusparseSpMV_bufferSize(struct handle *h, int op, const double *alpha, const struct matrix *a, double **x, const double *beta, double **y,
                            int kind, int alg, size_t *bytes)
{
    (void)h, (void)op, (void)alpha, (void)a, (void)x, (void)beta, (void)y, (void)kind, (void)alg;
    *bytes = 16;
    return 0;
}

int cusparseSpMV(struct handle *h, int op, const double *alpha, const struct matrix *a, double **x, const double *beta, double **y, int kind,
                 int alg, void *buffer)
{
    if (op || kind != 1 || alg || !buffer || wait_for(h->stream))
        return 6;
    for (long i = 0; i < a->rows; i++) {
        double sum = 0;
        for (int at = a->offsets[i]; at < a->offsets[i + 1]; at++)
            sum += a->values[at] * (*x)[a->columns[at]];
        (*y)[i] = *alpha * sum + *beta * (*y)[i];
    }
    return 0;
}

int cusolverDnDgetrf_bufferSize(struct handle *h, int m, int n, double *a, int lda, int *count)
{
    (void)h, (void)m, (void)n, (void)a, (void)lda;
    *count = 4;
    return 0;
}

/* Without pivoting. */
int cusolverDnDgetrf(struct handle *h, int m, int n, double *a, int lda, double *work, int *pivots, int *info)
{
    if (m != n || !work || wait_for(h->stream))
        return 6;
    for (int k = 0; k < n; k++) {
        pivots[k] = k + 1;
        for (int i = k + 1; i < n; i++) {
            a[i + k * lda] /= a[k + k * lda];
            for (int j = k + 1; j < n; j++)
                a[i + j * lda] -= a[i + k * lda] * a[k + j * lda];
        }
    }
    *info = 0;
    return 0;
}

int cusolverDnDgetrs(struct handle *h, int op, int n, int count, const double *a, int lda, const int *pivots, double *b, int ldb, int *info)
{
    (void)ldb;
    if (op || count != 1 || pivots[0] != 1 || wait_for(h->stream))
        return 6;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            b[i] -= a[i + j * lda] * b[j];
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++)
            b[i] -= a[i + j * lda] * b[j];
        b[i] /= a[i + i * lda];
    }
    *info = 0;
    return 0;
}

static unsigned long long state;

int curandCreateGenerator(struct handle **generator, int kind)
{
    return kind == 100 ? create_generator(generator) : 103;
}

int curandSetPseudoRandomGeneratorSeed(struct handle *g, unsigned long long seed)
{
    (void)g;
    state = seed;
    return seed == 1234 ? 0 : 103;
}

static float uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return ((state >> 40) + 1) / 16777216.0f;
}

int curandGenerateUniform(struct handle *g, float *output, size_t count)
{
    if (wait_for(g->stream))
        return 201;
    for (size_t i = 0; i < count; i++)
        output[i] = uniform();
    return 0;
}

int curandGenerateNormal(struct handle *g, float *output, size_t count, float mean, float deviation)
{
    if (wait_for(g->stream))
        return 201;
    for (size_t i = 0; i < count; i++)
        output[i] = mean + deviation * (uniform() + uniform() + uniform() - 1.5f) * 2;
    return 0;
}

#define GEMM(name, type)                                                                                                         \
    int name(struct handle *h, int ta, int tb, int m, int n, int k, const type *alpha, const type *a, int lda, const type *b,    \
             int ldb, const type *beta, type *c, int ldc)                                                                        \
    {                                                                                                                            \
        if (wait_for(h->stream))                                                                                                 \
            return 13;                                                                                                           \
        for (int j = 0; j < n; j++)                                                                                              \
            for (int i = 0; i < m; i++) {                                                                                        \
                type sum = 0;                                                                                                    \
                for (int l = 0; l < k; l++)                                                                                      \
                    sum += (ta ? a[l + i * lda] : a[i + l * lda]) * (tb ? b[j + l * ldb] : b[l + j * ldb]);                      \
                c[i + j * ldc] = *alpha * sum + *beta * c[i + j * ldc];                                                          \
            }                                                                                                                    \
        return 0;                                                                                                                \
    }
GEMM(cublasSgemm_v2, float)
GEMM(cublasDgemm_v2, double)

int cublasDaxpy_v2(struct handle *h, int n, const double *alpha, const double *x, int incx, double *y, int incy)
{
    if (wait_for(h->stream))
        return 13;
    for (int i = 0; i < n; i++)
        y[i * incy] += *alpha * x[i * incx];
    return 0;
}

int cublasDdot_v2(struct handle *h, int n, const double *x, int incx, const double *y, int incy, double *result)
{
    if (wait_for(h->stream))
        return 13;
    *result = 0;
    for (int i = 0; i < n; i++)
        *result += x[i * incx] * y[i * incy];
    return 0;
}

int cublasIdamax_v2(struct handle *h, int n, const double *x, int incx, int *result)
{
    if (wait_for(h->stream))
        return 13;
    *result = 1;
    for (int i = 1; i < n; i++)
        if (fabs(x[i * incx]) > fabs(x[(*result - 1) * incx]))
            *result = i + 1;
    return 0;
}

static struct {
    int size, batch;
    void *stream;
} plans[8];
static int planned;

int cufftPlan1d(int *plan, int size, int kind, int batch)
{
    if (planned == 8 || kind != 0x69)
        return 3;
    plans[planned].size = size;
    plans[planned].batch = batch;
    *plan = planned++;
    return 0;
}

int cufftSetStream(int plan, void *stream)
{
    plans[plan].stream = stream;
    return 0;
}

int cufftDestroy(int plan)
{
    plans[plan].size = 0;
    return 0;
}

int cufftExecZ2Z(int plan, const double complex *in, double complex *out, int direction)
{
    int size = plans[plan].size;
    double complex *sums = malloc(sizeof *sums * size);
    if (!sums || wait_for(plans[plan].stream))
        return 6;
    for (int which = 0; which < plans[plan].batch; which++) {
        for (int i = 0; i < size; i++) {
            sums[i] = 0;
            for (int j = 0; j < size; j++)
                sums[i] += in[which * size + j] * cexp(direction * 2 * M_PI * I * i * j / size);
        }
        for (int i = 0; i < size; i++)
            out[which * size + i] = sums[i];
    }
    free(sums);
    return 0;
}
