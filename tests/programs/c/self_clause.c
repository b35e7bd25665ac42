// self: the construct runs on the host, on the program's own data. default on data, and the readonly modifier, which
// changes nothing.
// BUILD gcc=14
#include "check.h"

static int on_device(int *x)
{
    int got = 0;
#pragma acc parallel present(x[0:1]) copyout(got)
    got = *x;
    return got;
}

int main(void)
{
    int x[1] = {1};
#pragma acc enter data copyin(x)
#pragma acc parallel self
    x[0] = 2;
    CHECK_EQ(x[0], 2);
    CHECK_EQ(on_device(x), WANT(1, 2));
    for (int host = 0; host < 2; host++) {
#pragma acc serial self(host) present(x)
        x[0] += 10;
#pragma acc kernels self(host) if(!host) present(x)
        x[0] += 10;
    }
    CHECK_EQ(x[0], WANT(22, 42));
    CHECK_EQ(on_device(x), WANT(21, 42));
#pragma acc exit data delete(x)

    int sum = 0;
#pragma acc data default(present) copyin(readonly: x)
#pragma acc parallel loop reduction(+:sum) copyin(readonly: x)
    for (int i = 0; i < 10; i++)
        sum += x[0];
    CHECK_EQ(sum, 10 * WANT(22, 42));
    return pass();
}
