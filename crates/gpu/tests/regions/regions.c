/* The regions of the conformance tests for GPUs. regions.ptx is made of it by
   gcc-12 -O2 -fopenacc -foffload=nvptx-none -foffload-options=-lm -save-temps -c regions.c, and linked. */
#include <stdio.h>

int variable = 41;
#pragma acc declare copyin(variable)

/* a[i] += s */
void add(double *restrict a, int n, double s)
{
#pragma acc parallel loop present(a[0:n])
    for (int i = 0; i < n; i++)
        a[i] += s;
}

/* *a = 2 * *a + b, after as many rounds of an arithmetic that the compiler can't see through */
void double_slowly(double *restrict a, double b, int rounds)
{
#pragma acc serial present(a[0:1])
    {
        double x = 1;
        for (int i = 0; i < rounds; i++)
            x = x * 0.999999 + 1e-7 * i;
        a[0] = x < 0 ? -1 : 2 * a[0] + b;
    }
}

void read_variable(double *restrict a)
{
#pragma acc serial present(a[0:1])
    a[0] = variable;
}

/* Writes where nothing is. */
void crash(double *restrict a, long offset)
{
#pragma acc serial deviceptr(a)
    a[offset] = 1;
}

/* The sum by a reduction over workers of long vectors: the block's address travels by shared memory. */
double sum(double *restrict a, int n)
{
    double s = 0;
#pragma acc parallel loop gang worker vector reduction(+ : s) num_workers(4) vector_length(64) present(a[0:n])
    for (int i = 0; i < n; i++)
        s += a[i];
    return s;
}

/* Something to do, and nothing to do it with. */
void nothing(void)
{
#pragma acc parallel num_gangs(1)
    {
    }
}

int main(void)
{
    double a[4] = { 0 };
    add(a, 4, 1), double_slowly(a, 1, 1), read_variable(a), crash(a, 0), sum(a, 4), nothing();
    return 0;
}
