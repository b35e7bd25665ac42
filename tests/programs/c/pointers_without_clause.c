// Regions that name no clause for the pointers of arrays that `enter data` has brought to the device: GCC passes the
// pointers as scalars, and they arrive as the device's.
#include "check.h"

enum { N = 1000 };

static void scale(double *a, double s, int n)
{
#pragma acc parallel loop default(present)
    for (int i = 0; i < n; i++)
        a[i] *= s;
}

static void add(double *a, const double *b, long n)
{
#pragma acc parallel loop
    for (long i = 0; i < n; i++)
        a[i] += b[i];
}

static void negate(double *a, int n)
{
#pragma acc kernels
    for (int i = 0; i < n; i++)
        a[i] = -a[i];
}

static void shift(double *a, int n, int queue)
{
#pragma acc parallel loop firstprivate(a) async(queue)
    for (int i = 0; i < n; i++)
        a[i] += 1;
}

static void first(double *a)
{
#pragma acc serial default(present)
    a[0] = 42;
}

int main(void)
{
    double *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
    for (int i = 0; i < N; i++)
        a[i] = i, b[i] = 2 * i;
#pragma acc enter data copyin(a[0:N], b[0:N])
    scale(a, 3, N);
    add(a, b, N);
    add(a + 10, b + 10, 10);
    negate(a, N);
    shift(a, N, 1);
    shift(a + 500, 500, 1);
#pragma acc wait(1)
    first(a);
#pragma acc exit data copyout(a[0:N]) delete(b)
    for (int i = 1; i < N; i++) {
        double expected = -(3.0 * i + 2 * i + (i >= 10 && i < 20 ? 2 * i : 0)) + 1 + (i >= 500);
        CHECK_EQ(a[i], expected);
    }
    CHECK(a[0] == 42);

    /* Large scalars stay what they are, and so do pointers to what is not present. */
    long long large = 123456789012345;
    double *absent = malloc(sizeof *absent);
    size_t same = 0;
#pragma acc parallel copyout(same)
    same = (size_t)absent + large;
    CHECK(same == (size_t)absent + large);
    return pass();
}
