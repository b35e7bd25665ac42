// What the tests' driver runs in place of the kernels of tests/programs/cuda-fortran. A kernel gets grid and block, the dynamic shared
// memory, the address of its parameter buffer, and the buffer's size.
#include <stdint.h>

struct descriptor {
    char *base;
    uint64_t element, kind, lower, extent, stride;
};

struct pair {
    double x;
    int n;
};

// The parameters of the kernel in 45_arguments.cuf, in the layout of its PTX.
struct arguments {
    struct descriptor *a;
    int *b;
    double s;
    int n;
    struct pair *p;
    float re, im;
};

int _QMmPk(const uint64_t *launch)
{
    const uint64_t wanted[9] = {3, 2, 1, 20, 1, 1, 256, launch[7], sizeof(struct arguments)};
    for (int i = 0; i < 9; i++)
        if (launch[i] != wanted[i])
            return 1;
    const struct arguments *k = (const struct arguments *)launch[7];
    if (k->a->element != 8 || k->a->extent != 120)
        return 1;
    for (int i = 0; i < k->n; i++) {
        double *a = (double *)(k->a->base + i * k->a->stride);
        *a = *a * k->s + k->p->x + k->p->n + k->re - k->im;
        k->b[i] = i + 1 + (int)(launch[3] * 1000 + launch[1] * 10);
    }
    return 0;
}

// The kernel of 50_device_properties.cuf: reverses an array, which takes all shared memory of the block.
int _QMlargePreversed(const uint64_t *launch)
{
    float *a = *(float **)launch[7];
    const int n = *(int *)(launch[7] + sizeof(float *));
    if (launch[3] != 256 || launch[6] != n * sizeof(float))
        return 1;
    for (int i = 0; i < n / 2; i++) {
        const float last = a[n - 1 - i];
        a[n - 1 - i] = a[i];
        a[i] = last;
    }
    return 0;
}
