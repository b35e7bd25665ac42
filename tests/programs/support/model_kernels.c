// What the driver that tests bring along runs in place of the kernels of model/driver.c. GCC takes the $ of their names, and
// hands over the addresses in the order in which it lists the clauses: sections, what it adds to them, values from the last to the first.

static int value(unsigned long long slot)
{
    return *(const int *)slot;
}

static int *section(unsigned long long slot)
{
    return (int *)slot;
}

int fill$_omp_fn$0(const unsigned long long *slots)
{
    for (int i = 0; i < value(slots[3]); i++)
        section(slots[0])[i] = value(slots[2]);
    return 0;
}

static int change(const unsigned long long *slots)
{
    int *a = section(slots[0]), c = value(slots[2]), m = value(slots[3]);
    for (int i = 0; i < value(slots[4]); i++)
        a[i] = (int)((unsigned)a[i] * m + c);
    return 0;
}

int change$_omp_fn$0(const unsigned long long *slots)
{
    return change(slots);
}

int copied$_omp_fn$0(const unsigned long long *slots)
{
    return change(slots);
}

static int add(const unsigned long long *slots)
{
    int *a = section(slots[0]), *b = section(slots[1]);
    for (int i = 0; i < value(slots[4]); i++)
        b[i] = (int)((unsigned)b[i] * 3 + a[i]);
    return 0;
}

int add$_omp_fn$0(const unsigned long long *slots)
{
    return add(slots);
}

int copied_in$_omp_fn$0(const unsigned long long *slots)
{
    return add(slots);
}

int copied_out$_omp_fn$0(const unsigned long long *slots)
{
    return fill$_omp_fn$0(slots);
}

int scalar$_omp_fn$0(const unsigned long long *slots)
{
    int *x = section(slots[0]);
    *x = (int)((unsigned)*x * value(slots[2]) + value(slots[1]));
    return 0;
}

int by_value$_omp_fn$0(const unsigned long long *slots)
{
    int *a = section(slots[0]);
    for (int i = 0; i < value(slots[3]); i++)
        a[i] = (int)((unsigned)a[i] + value(slots[1]));
    return 0;
}

int through$_omp_fn$0(const unsigned long long *slots)
{
    int *a = *(int **)slots[0], c = value(slots[1]), m = value(slots[2]), n = value(slots[3]), lo = value(slots[4]);
    for (int i = lo; i < lo + n; i++)
        a[i] = (int)((unsigned)a[i] * m + c);
    return 0;
}

int spin$_omp_fn$0(const unsigned long long *slots)
{
    volatile int x = 0;
    for (int i = 0; i < value(slots[0]); i++)
        x = x + i;
    return 0;
}
