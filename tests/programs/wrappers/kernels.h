/* A kernels construct in an included file, and one in a macro. */
static void scale(double *restrict to, const double *restrict from, int n, double by)
{
#pragma acc kernels copyout(to[0:n]) copyin(from[0:n])
    for (int i = 0; i < n; i++)
        to[i] = from[i] * by;
}

static double filled[100];

#define FILL(n, value)                                                         \
    do {                                                                       \
        _Pragma("acc kernels loop independent") for (int i_ = 0; i_ < (n); i_++) \
            filled[i_] = (value) + i_;                                         \
    } while (0)
