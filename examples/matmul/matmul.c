/* C = A B on one device, then with C's row tiles dealt out to every device.
 *
 * Each device gets all of B but only its own rows of A and C: an array section names them, and the region
 * goes on using the whole array's indices. */
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void multiply_host(int n, const double *a, const double *b, double *c)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < n; k++)
                sum += a[(size_t)i * n + k] * b[(size_t)k * n + j];
            c[(size_t)i * n + j] = sum;
        }
}

static void multiply_one(int n, const double *a, const double *b, double *c)
{
    size_t all = (size_t)n * n;
#pragma acc parallel loop copyin(a[0:all], b[0:all]) copyout(c[0:all])
    for (int i = 0; i < n; i++) {
#pragma acc loop vector
        for (int j = 0; j < n; j++) {
            double sum = 0;
#pragma acc loop seq
            for (int k = 0; k < n; k++)
                sum += a[(size_t)i * n + k] * b[(size_t)k * n + j];
            c[(size_t)i * n + j] = sum;
        }
    }
}

static int multiply_all(int n, const double *a, const double *b, double *c)
{
    size_t all = (size_t)n * n;
    acc_device_t type = acc_get_num_devices(acc_device_nvidia) > 0 ? acc_device_nvidia : acc_get_device_type();
    int devices = acc_get_num_devices(type);
    for (int d = 0; d < devices; d++) {
        int start = (int)((long)d * n / devices), end = (int)((long)(d + 1) * n / devices);
        size_t first = (size_t)start * n, count = (size_t)(end - start) * n;
        acc_set_device_num(d, type);
#pragma acc enter data copyin(a[first:count], b[0:all]) create(c[first:count]) async
#pragma acc parallel loop present(a[first:count], b[0:all], c[first:count]) async
        for (int i = start; i < end; i++) {
#pragma acc loop vector
            for (int j = 0; j < n; j++) {
                double sum = 0;
#pragma acc loop seq
                for (int k = 0; k < n; k++)
                    sum += a[(size_t)i * n + k] * b[(size_t)k * n + j];
                c[(size_t)i * n + j] = sum;
            }
        }
#pragma acc exit data copyout(c[first:count]) delete(a[first:count], b[0:all]) async
    }
    for (int d = 0; d < devices; d++) {
        acc_set_device_num(d, type);
#pragma acc wait
    }
    acc_set_device_num(0, type);
    return devices;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 400;
    if (n < 1) {
        fprintf(stderr, "usage: matmul [rows]\n");
        return 2;
    }
    size_t all = (size_t)n * n;
    double *a = malloc(all * sizeof *a), *b = malloc(all * sizeof *b);
    double *want = malloc(all * sizeof *want), *got = malloc(all * sizeof *got);
    if (!a || !b || !want || !got) {
        perror("matmul");
        return 1;
    }
    for (size_t i = 0; i < all; i++) {
        a[i] = (double)(i % 7) - 3;
        b[i] = (double)(i % 5) / 2;
    }

    double start = now();
    multiply_host(n, a, b, want);
    printf("where=host devices=0 rows=%d seconds=%.3f\n", n, now() - start);

    acc_init(acc_device_default);
    start = now();
    multiply_one(n, a, b, got);
    printf("where=one devices=1 rows=%d seconds=%.3f\n", n, now() - start);
    int wrong = memcmp(want, got, all * sizeof *want);

    memset(got, 0, all * sizeof *got);
    start = now();
    int devices = multiply_all(n, a, b, got);
    printf("where=all devices=%d rows=%d seconds=%.3f\n", devices, n, now() - start);
    wrong |= memcmp(want, got, all * sizeof *want);

    if (wrong)
        fprintf(stderr, "matmul: a product differs from the host's\n");
    free(a), free(b), free(want), free(got);
    return wrong != 0;
}
