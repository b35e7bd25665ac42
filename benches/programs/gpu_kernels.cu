// The loops of gpu_kernels.c as CUDA kernels by hand: an element a thread, a row a thread or a warp.
//   nvcc -O3 -arch=native -cubin gpu_kernels.cu

template <typename T> __device__ T sum_of_warp(T value)
{
    for (int far = 16; far; far /= 2)
        value += __shfl_down_sync(~0u, value, far);
    return value;
}

template <typename T> __device__ void sum_of_block(T value, T *sum)
{
    __shared__ T parts[32];
    value = sum_of_warp(value);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = sum_of_warp(threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : T(0));
        if (threadIdx.x == 0)
            atomicAdd(sum, value);
    }
}

#define EACH long i = blockIdx.x * (long)blockDim.x + threadIdx.x
#define STRIDED for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long)blockDim.x)

#define KERNELS(T, type)                                                                                                \
    extern "C" __global__ void copy_##type(T *__restrict__ c, const T *__restrict__ a, long n)                          \
    {                                                                                                                   \
        EACH;                                                                                                           \
        if (i < n)                                                                                                      \
            c[i] = a[i];                                                                                                \
    }                                                                                                                   \
    extern "C" __global__ void mul_##type(T *__restrict__ b, const T *__restrict__ c, T s, long n)                      \
    {                                                                                                                   \
        EACH;                                                                                                           \
        if (i < n)                                                                                                      \
            b[i] = s * c[i];                                                                                            \
    }                                                                                                                   \
    extern "C" __global__ void add_##type(T *__restrict__ c, const T *__restrict__ a, const T *__restrict__ b, long n)  \
    {                                                                                                                   \
        EACH;                                                                                                           \
        if (i < n)                                                                                                      \
            c[i] = a[i] + b[i];                                                                                         \
    }                                                                                                                   \
    extern "C" __global__ void triad_##type(T *__restrict__ a, const T *__restrict__ b, const T *__restrict__ c, T s,   \
                                            long n)                                                                     \
    {                                                                                                                   \
        EACH;                                                                                                           \
        if (i < n)                                                                                                      \
            a[i] = b[i] + s * c[i];                                                                                     \
    }                                                                                                                   \
    extern "C" __global__ void dot_##type(const T *__restrict__ a, const T *__restrict__ b, T *sum, long n)             \
    {                                                                                                                   \
        T part = 0;                                                                                                     \
        STRIDED part += a[i] * b[i];                                                                                    \
        sum_of_block(part, sum);                                                                                        \
    }                                                                                                                   \
    extern "C" __global__ void sum_##type(const T *__restrict__ a, T *sum, long n)                                      \
    {                                                                                                                   \
        T part = 0;                                                                                                     \
        STRIDED part += a[i];                                                                                           \
        sum_of_block(part, sum);                                                                                        \
    }                                                                                                                   \
    extern "C" __global__ void stencil_##type(T *__restrict__ to, const T *__restrict__ from, int n)                    \
    {                                                                                                                   \
        int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y + 1;                                          \
        if (x < n - 1)                                                                                                  \
            to[y * n + x] = (T)0.2 * (from[y * n + x] + from[y * n + x - 1] + from[y * n + x + 1] +                     \
                                      from[(y - 1) * n + x] + from[(y + 1) * n + x]);                                   \
    }                                                                                                                   \
    extern "C" __global__ void spmv_##type(T *__restrict__ y, const T *__restrict__ x, const T *__restrict__ value,     \
                                           const int *__restrict__ column, const int *__restrict__ first, int rows)     \
    {                                                                                                                   \
        int row = blockIdx.x * blockDim.x + threadIdx.x;                                                                \
        if (row >= rows)                                                                                                \
            return;                                                                                                     \
        T sum = 0;                                                                                                      \
        for (int k = first[row]; k < first[row + 1]; k++)                                                               \
            sum += value[k] * x[column[k]];                                                                             \
        y[row] = sum;                                                                                                   \
    }                                                                                                                   \
    extern "C" __global__ void spmv_vector_##type(T *__restrict__ y, const T *__restrict__ x,                           \
                                                  const T *__restrict__ value, const int *__restrict__ column,          \
                                                  const int *__restrict__ first, int rows)                              \
    {                                                                                                                   \
        int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;                                                         \
        if (row >= rows)                                                                                                \
            return;                                                                                                     \
        T sum = 0;                                                                                                      \
        for (int k = first[row] + threadIdx.x % 32; k < first[row + 1]; k += 32)                                        \
            sum += value[k] * x[column[k]];                                                                             \
        sum = sum_of_warp(sum);                                                                                         \
        if (threadIdx.x % 32 == 0)                                                                                      \
            y[row] = sum;                                                                                               \
    }

KERNELS(double, double)
KERNELS(float, float)

extern "C" __global__ void histogram(const int *__restrict__ bin, int *count, long n)
{
    EACH;
    if (i < n)
        atomicAdd(&count[bin[i]], 1);
}
