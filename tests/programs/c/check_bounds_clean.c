// ACCORD_CHECK=bounds: a correct program is not disturbed: sections, members, private arrays, queues, acc_malloc, memory that is freed and taken again.
// RUN env=ACCORD_CHECK=bounds
#include "check.h"

#define N 1000

struct part {
    int count;
    double *values;
};

static double table[N];
#pragma acc declare create(table)

int main(void)
{
    struct part part = {N, calloc(N, sizeof(double))};
    double *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
    int s = 0;
    for (int i = 0; i < N; i++)
        a[i] = i;
#pragma acc enter data copyin(part) create(part.values[0:N])
    for (int round = 0; round < 20; round++) {
        int n = N - 37 * round;
#pragma acc data copyin(a[0:n]) copyout(b[0:n])
        {
#pragma acc parallel loop present(a[0:n], b[0:n]) async(1)
            for (int i = 0; i < n; i++)
                b[i] = 2 * a[i];
#pragma acc parallel loop present(b[0:n]) async(1)
            for (int i = 0; i < n; i++)
                b[i] += round;
#pragma acc update self(b[n - 1:1]) async(1)
#pragma acc wait(1)
            CHECK_EQ(b[n - 1], 2 * (n - 1) + round);
        }
        for (int i = 0; i < n; i++)
            CHECK_EQ(b[i], 2 * i + round);
#pragma acc parallel loop present(part) firstprivate(n) reduction(+:s)
        for (int i = 0; i < part.count; i++) {
            double own[8];
            for (int k = 0; k < 8; k++)
                own[k] = i + k;
            part.values[i] = own[7] - 7 + n;
            s++;
        }
    }
    CHECK_EQ(s, 20 * N);
#pragma acc exit data copyout(part.values[0:N])
#pragma acc exit data delete(part)
    CHECK_EQ(part.values[N - 1], N - 1 + N - 37 * 19);
    char *device = acc_malloc(12345);
    acc_memcpy_to_device(device, a, N * sizeof *a);
#pragma acc parallel loop deviceptr(device)
    for (int i = 0; i < 12345; i++)
        device[i] = i % 100;
    char last = 0;
    acc_memcpy_from_device(&last, device + 12344, 1);
    CHECK_EQ(last, WANT(44, 44));
    acc_free(device);
#pragma acc parallel loop present(table)
    for (int i = 0; i < N; i++)
        table[i] = i;
    acc_update_self(table, sizeof table);
    CHECK_EQ(table[N - 1], N - 1);
    free(a);
    free(b);
    return pass();
}
