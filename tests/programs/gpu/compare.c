// ACCORD_COMPARE on a GPU whose kernels compute differently from the host's code: the tests' driver runs what this program registers in their place.
#include "check.h"
#include <dlfcn.h>

enum { N = 3000 };

static void halve(float *restrict a, int n)
{
#pragma acc parallel loop present(a[0:n])
    for (int i = 0; i < n; i++)
        a[i] /= 2;
}

static void fill(double *restrict a, int n)
{
#pragma acc parallel loop present(a[0:n])
    for (int i = 0; i < n; i++)
        a[i] = i;
}

static int halve_on_fake(const unsigned long long *slots)
{
    float *a = (float *)slots[0];
    int n = *(int *)slots[1];
    for (int i = 0; i < n; i++)
        a[i] = a[i] / 2 * (1 + 1e-7f);
    return 0;
}

static int fill_on_fake(const unsigned long long *slots)
{
    double *a = (double *)slots[0];
    int n = *(int *)slots[1];
    for (int i = 0; i < n; i++)
        a[i] = i == 1234 ? -1 : i;
    return 0;
}

int main(void)
{
    static float f[N];
    static double d[N];
    acc_init(acc_device_nvidia);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    CHECK(driver != NULL);
    void (*replace)(const char *, int (*)(const unsigned long long *));
    *(void **)&replace = dlsym(driver, "fake_cuda_kernel");
    CHECK(replace != NULL);
    replace("halve$_omp_fn$0", halve_on_fake);
    replace("fill$_omp_fn$0", fill_on_fake);
    for (int i = 0; i < N; i++)
        f[i] = i;
#pragma acc data copy(f, d)
    {
        halve(f, N);
        fill(d, N);
        halve(f, N);
    }
    CHECK_EQ(d[1234], -1);
    printf("PASS\n");
    return 0;
}
