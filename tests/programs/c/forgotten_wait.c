// Programs that forget to wait for a queue before data leaves the device are wrong (2.16); they work where every copy waits for
// all queues. The end of the data waits for them.
#include "check.h"

enum { N = 200000 };

static void fill(double *a, double value, int queue)
{
#pragma acc parallel loop present(a[0:N]) async(queue)
    for (int i = 0; i < N; i++) {
        double x = 0;
        for (int k = 0; k < 50; k++)
            x += value / 50;
        a[i] = (int)(x + 0.5);
    }
}

int main(void)
{
    double *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
#pragma acc data copyout(a[0:N], b[0:N])
    {
        fill(a, 1, 1);
        fill(b, 2, 2);
    }
    CHECK_ALL(a, N, 1);
    CHECK_ALL(b, N, 2);
#pragma acc enter data create(a[0:N])
    fill(a, 3, 3);
#pragma acc exit data copyout(a[0:N])
    CHECK_ALL(a, N, 3);
    acc_create(b, N * sizeof *b);
    fill(b, 4, 4);
    acc_copyout(b, N * sizeof *b);
    CHECK_ALL(b, N, 4);
    return pass();
}
