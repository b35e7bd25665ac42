/* In place of cuBLAS and cuFFT, on the tests' driver, whose memory is the host's. A routine waits for its stream first, as the libraries' work follows
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

int cublasCreate_v2(struct handle **handle)
{
    *handle = calloc(1, sizeof **handle);
    return 0;
}

int cublasDestroy_v2(struct handle *handle)
{
    free(handle);
    return 0;
}

int cublasSetStream_v2(struct handle *handle, void *stream)
{
    handle->stream = stream;
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
