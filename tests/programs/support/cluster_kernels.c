// What the driver that tests bring along runs in place of the kernels of cluster.c, counts_regions.c, deepbind.c, lost_context.c, printed.c, random_work.c, steps.c and unmapped.c. GCC takes
// the $ of their names.
#include <stdio.h>

int add$_omp_fn$0(const unsigned long long *slots)
{
    double *a = (double *)slots[0], s = *(double *)slots[1];
    int n = *(int *)slots[2];
    for (int i = 0; i < n; i++)
        a[i] += s;
    return 0;
}

int count_up$_omp_fn$0(const unsigned long long *slots)
{
    (void)slots;
    return 0;
}

int separate$_omp_fn$0(const unsigned long long *slots)
{
    *(int *)slots[1] = *(int *)slots[0];
    return 0;
}

int is_separate$_omp_fn$0(const unsigned long long *slots)
{
    *(int *)slots[1] = *(int *)slots[0];
    return 0;
}

int say$_omp_fn$0(const unsigned long long *slots)
{
    printf("region %d\n", *(int *)slots[0]);
    return 0;
}

int crash$_omp_fn$0(const unsigned long long *slots)
{
    (void)slots;
    return 700;
}

int work$_omp_fn$0(const unsigned long long *slots)
{
    int *p = *(int **)slots[1];
    *(unsigned long long *)slots[0] = (unsigned long long)p;
    for (int i = 0; i < 1000; i++)
        p[i] += 1;
    return 0;
}

int launch$_omp_fn$0(const unsigned long long *slots)
{
    int *p = (int *)slots[0], by = *(int *)slots[1], count = *(int *)slots[2], first = *(int *)slots[3];
    for (int i = first; i < first + count; i++)
        p[i] = p[i] * 3 + by;
    return 0;
}

int whole_region$_omp_fn$0(const unsigned long long *slots)
{
    int *p = (int *)slots[0], by = *(int *)slots[1], n = *(int *)slots[2];
    for (int i = 0; i < n; i++)
        p[i] ^= by;
    return 0;
}

int step$_omp_fn$0(const unsigned long long *slots)
{
    unsigned *values = (unsigned *)slots[0];
    int by = *(int *)slots[1];
    for (int i = 0; i < 100000; i++)
        values[i] = values[i] * 3 + by;
    return 0;
}
