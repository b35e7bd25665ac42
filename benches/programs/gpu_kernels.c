/* Loops that memory bounds, beside the same as CUDA kernels by hand, in one process on the same arrays.
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_kernels.c -ldl
   gpu_kernels [CUBIN|- [N]]: arrays of 2^N elements; kernels by hand are those of gpu_kernels.cu, each with the block size that serves it
   best. */
#include "gpu_raw.h"
#include <openacc.h>
#include <string.h>

enum { ROUNDS = 30, OF_ROW = 27, BINS = 1 << 20 };
/* Elements, rows and columns of the stencil, rows of the matrix. */
static long n;
static int side, rows;

#define REAL double
#define NAME(x) x##_double
#include "gpu_kernels.h"
#undef REAL
#undef NAME
#define REAL float
#define NAME(x) x##_float
#include "gpu_kernels.h"
#undef REAL
#undef NAME

static void histogram(const int *restrict bin, int *restrict count, long n)
{
#pragma acc parallel loop present(bin[0:n], count[0:BINS])
    for (long i = 0; i < n; i++) {
#pragma acc atomic
        count[bin[i]]++;
    }
}

static void nothing(const int *first, long n)
{
#pragma acc parallel loop present(first[0:1])
    for (long i = 0; i < n; i++)
        if (first[0] < 0)
            __builtin_abort();
}

static void *a, *b, *c;
static int *column, *first, *bin, *count;
static double sum;

enum kernel { COPY, MUL, ADD, TRIAD, DOT, SUM, STENCIL, STENCIL_COLLAPSED, SPMV, SPMV_VECTOR, HISTOGRAM, NOTHING, KERNELS };

static const struct {
    const char *name, *by_hand;
} kernels[KERNELS] = {
    [COPY] = { "copy", "copy" },
    [MUL] = { "mul", "mul" },
    [ADD] = { "add", "add" },
    [TRIAD] = { "triad", "triad" },
    [DOT] = { "dot", "dot" },
    [SUM] = { "sum", "sum" },
    [STENCIL] = { "stencil, gang and vector", "stencil" },
    [STENCIL_COLLAPSED] = { "stencil, collapsed", "stencil" },
    [SPMV] = { "spmv, a row a thread", "spmv" },
    [SPMV_VECTOR] = { "spmv, a row a vector", "spmv_vector" },
    [HISTOGRAM] = { "histogram", "histogram" },
    [NOTHING] = { "nothing", 0 },
};

#define RUN(type, kernel)                                                        \
    switch (kernel) {                                                            \
    case COPY: copy_##type(c, a, n); break;                                      \
    case MUL: mul_##type(b, c, 0.4, n); break;                                   \
    case ADD: add_##type(c, a, b, n); break;                                     \
    case TRIAD: triad_##type(a, b, c, 0.4, n); break;                            \
    case DOT: sum = dot_##type(a, b, n); break;                                  \
    case SUM: sum = sum_##type(a, n); break;                                     \
    case STENCIL: stencil_##type(c, a, side); break;                             \
    case STENCIL_COLLAPSED: stencil_collapsed_##type(c, a, side); break;         \
    case SPMV: spmv_##type(c, b, a, column, first, rows); break;                 \
    case SPMV_VECTOR: spmv_vector_##type(c, b, a, column, first, rows); break;   \
    case HISTOGRAM: histogram(bin, count, n); break;                             \
    case NOTHING: nothing(first, 0); break;                                      \
    default: break;                                                              \
    }

static raw_handle module, stream;

/* One launch of a kernel by hand with blocks of this size, until it is done. */
static void by_hand(enum kernel kernel, int is_float, raw_handle function, unsigned block)
{
    raw_ptr at[] = { (raw_ptr)acc_deviceptr(a), (raw_ptr)acc_deviceptr(b), (raw_ptr)acc_deviceptr(c) };
    static raw_ptr result;
    long length = n;
    double s = 0.4;
    float small = 0.4f;
    void *scale = is_float ? (void *)&small : &s;
    unsigned grid = (unsigned)((n + block - 1) / block), height = 1;
    void *parameters[6] = { 0 };
#define GIVE(...) memcpy(parameters, (void *[]){ __VA_ARGS__ }, sizeof((void *[]){ __VA_ARGS__ }))
    raw_ptr more[] = { (raw_ptr)acc_deviceptr(column), (raw_ptr)acc_deviceptr(first), (raw_ptr)acc_deviceptr(bin),
                       (raw_ptr)acc_deviceptr(count) };
    double zero = 0;
    if (!result)
        RAW(cuMemAlloc_v2, &result, sizeof zero);
    switch (kernel) {
    case COPY: GIVE(&at[2], &at[0], &length); break;
    case MUL: GIVE(&at[1], &at[2], scale, &length); break;
    case ADD: GIVE(&at[2], &at[0], &at[1], &length); break;
    case TRIAD: GIVE(&at[0], &at[1], &at[2], scale, &length); break;
    case DOT: GIVE(&at[0], &at[1], &result, &length); grid = 132 * 2048 / block * 4; break;
    case SUM: GIVE(&at[0], &result, &length); grid = 132 * 2048 / block * 4; break;
    case STENCIL:
    case STENCIL_COLLAPSED: GIVE(&at[2], &at[0], &side); grid = (side + block - 1) / block; height = side - 2; break;
    case SPMV:
    case SPMV_VECTOR:
        GIVE(&at[2], &at[1], &at[0], &more[0], &more[1], &rows);
        grid = ((kernel == SPMV ? rows : rows * 32u) + block - 1) / block;
        break;
    case HISTOGRAM: GIVE(&more[2], &more[3], &length); break;
    default: break;
    }
    if (kernel == DOT || kernel == SUM)
        RAW(cuMemcpyHtoD_v2, result, &zero, sizeof zero);
    RAW(cuLaunchKernel, function, grid, height, 1, block, 1, 1, 0, stream, parameters, 0);
    if (kernel == DOT || kernel == SUM) {
        RAW(cuMemcpyDtoHAsync_v2, &zero, result, sizeof zero, stream);
        RAW(cuStreamSynchronize, stream);
        memcpy(&small, &zero, sizeof small);
        sum = is_float ? small : zero;
    } else {
        RAW(cuStreamSynchronize, stream);
    }
}

static int measure(enum kernel kernel, int is_float)
{
    double us[ROUNDS], hand[ROUNDS], sums[2] = { 0 };
    int by_the_hand = 0, is_sum = kernel == DOT || kernel == SUM;
    char name[64];
    const char *type = kernel == HISTOGRAM ? "int" : is_float ? "float" : "double";
    for (unsigned block = 128; module && kernels[kernel].by_hand && block <= 512; block *= 2) {
        raw_handle function;
        snprintf(name, sizeof name, kernel == HISTOGRAM ? "%s" : "%s_%s", kernels[kernel].by_hand, type);
        RAW(cuModuleGetFunction, &function, module, name);
        for (int r = -3; r < ROUNDS; r++) {
            double t = now_us();
            by_hand(kernel, is_float, function, block);
            if (r >= 0)
                us[r] = now_us() - t;
        }
        qsort(us, ROUNDS, sizeof *us, by_value);
        if (!by_the_hand++ || us[ROUNDS / 2] < hand[ROUNDS / 2])
            memcpy(hand, us, sizeof hand);
    }
    sums[0] = by_the_hand && is_sum ? sum : 0;
    /* The first launches find out what serves them. */
    for (int r = -12; r < ROUNDS; r++) {
        double t = now_us();
        if (is_float) {
            RUN(float, kernel)
        } else {
            RUN(double, kernel)
        }
        if (r >= 0)
            us[r] = now_us() - t;
    }
    sums[1] = is_sum ? sum : 0;
    snprintf(name, sizeof name, "%s, %s", kernels[kernel].name, type);
    report("array loops", name, "us", us, ROUNDS);
    if (by_the_hand)
        report("by hand", name, "us", hand, ROUNDS);
    return !sums[0] || (sums[1] / sums[0] > 0.999 && sums[1] / sums[0] < 1.001);
}

static void fill(int is_float)
{
    double *x = a, *y = b, *z = c;
    float *fx = a, *fy = b, *fz = c;
#pragma acc parallel loop present(x[0:n], y[0:n], z[0:n], fx, fy, fz)
    for (long i = 0; i < n; i++) {
        if (is_float)
            fx[i] = 0.1f, fy[i] = 0.2f, fz[i] = 0;
        else
            x[i] = 0.1, y[i] = 0.2, z[i] = 0;
    }
}

int main(int argc, char **argv)
{
    int log2 = argc > 2 ? atoi(argv[2]) : 27;
    n = 1L << log2, side = 1 << (log2 - 1) / 2, rows = 1 << (log2 - 6);
    a = malloc(n * sizeof(double)), b = malloc(n * sizeof(double)), c = malloc(n * sizeof(double));
    double *x = a, *y = b, *z = c;
    column = malloc(sizeof(int) * rows * OF_ROW), first = malloc(sizeof(int) * (rows + 1));
    bin = malloc(sizeof(int) * n), count = calloc(BINS, sizeof(int));
#pragma acc enter data create(x[0:n], y[0:n], z[0:n], column[0:rows * OF_ROW], first[0:rows + 1], bin[0:n]) copyin(count[0:BINS])
    if (argc > 1 && strcmp(argv[1], "-")) {
        FILE *file = fopen(argv[1], "rb");
        char *code = calloc(1, 16 << 20);
        if (!file || !fread(code, 1, (16 << 20) - 1, file))
            return fprintf(stderr, "%s can't be read\n", argv[1]), 1;
        fclose(file);
        raw_load();
        raw_context(0);
        RAW(cuModuleLoadData, &module, code);
        RAW(cuStreamCreate, &stream, 1);
    }
    int *columns = column, *starts = first, *bins = bin;
    /* A band around the diagonal, and bins in no order. */
#pragma acc parallel loop present(columns, starts)
    for (int row = 0; row <= rows; row++) {
        starts[row] = row * OF_ROW;
        for (int k = 0; row < rows && k < OF_ROW; k++) {
            int far = row + (k % 3 - 1) + (k / 3 % 3 - 1) * 128 + (k / 9 - 1) * 16384;
            columns[row * OF_ROW + k] = far < 0 ? far + rows : far >= rows ? far - rows : far;
        }
    }
#pragma acc parallel loop present(bins)
    for (long i = 0; i < n; i++)
        bins[i] = (unsigned)(i * 2654435761u) >> 12;
    int right = 1;
    for (int is_float = 0; is_float < 2; is_float++) {
        fill(is_float);
        for (enum kernel kernel = 0; kernel < KERNELS; kernel++)
            if (!is_float || (kernel != HISTOGRAM && kernel != NOTHING))
                right &= measure(kernel, is_float);
    }
#pragma acc update self(count[0:BINS])
    long counted = 0;
    for (int i = 0; i < BINS; i++)
        counted += count[i];
    right &= counted % n == 0;
    printf("{\"bench\": \"array loops\", \"what\": \"right\", \"value\": %d}\n", right);
    return !right;
}
