// The kernels of kernels.cuf by hand.
//   nvcc -O3 -arch=native -cubin by_hand.cu

extern "C" __global__ void nothing()
{
}

extern "C" __global__ void triad(double *__restrict__ a, const double *__restrict__ b, const double *__restrict__ c, double s, long n)
{
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n)
        a[i] = b[i] + s * c[i];
}

// Matrices by columns, as Fortran has them.
extern "C" __global__ void mmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n, int m, int l)
{
    __shared__ float a_sub[16][16], b_sub[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, i = blockIdx.x * 16 + tx, j = blockIdx.y * 16 + ty;
    float sum = 0;
    for (int kb = 0; kb < m; kb += 16) {
        a_sub[ty][tx] = a[i + (long)(kb + ty) * n];
        b_sub[ty][tx] = b[kb + tx + (long)j * m];
        __syncthreads();
        for (int k = 0; k < 16; k++)
            sum += a_sub[k][tx] * b_sub[ty][k];
        __syncthreads();
    }
    c[i + (long)j * n] = sum;
}
