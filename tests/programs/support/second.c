/* The other file of trap_31. */
static int bias = 1000;
#pragma acc declare copyin(bias)

static int run(int x)
{
    int got = -1;
#pragma acc parallel copyout(got)
    got = x + bias;
    return got;
}

int second_run(int x)
{
    return run(x);
}
