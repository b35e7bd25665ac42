/* A shared object with a region, a routine and declared data. */
static int factor = 3;
#pragma acc declare copyin(factor)

#pragma acc routine seq
static int times_factor(int x)
{
    return x * factor;
}

int plugin_sum(const int *a, int n)
{
    int sum = 0;
#pragma acc parallel loop copyin(a[0:n]) reduction(+ : sum)
    for (int i = 0; i < n; i++)
        sum += a[i];
    return sum;
}

int plugin_scale(int x)
{
    int got = -1;
#pragma acc parallel copyout(got)
    got = times_factor(x);
    return got;
}
