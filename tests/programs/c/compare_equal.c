// ACCORD_COMPARE: a program that computes the same on each device has no findings: sections, queues, members, declare variables, acc_malloc, NaN.
// EXPECT device-memory
// EXPECT stderr=/accord: compare: compared \d+ runs of [67] regions with a CPU device: all data is equal \(\d+ bytes\)\n/
// EXPECT stderr=/accord: compare: regions of queues are compared one by one/
// EXPECT stderr=/accord: compare: the comparison took \d+\.\d s: \d+\.\d s for the regions on the CPU device/
// RUN env=ACCORD_COMPARE=on
// BUILD offload=no
#include "check.h"
#include <math.h>

#define N 1000

struct part {
    int count;
    double *values;
    int *order;
};

static float table[N];
#pragma acc declare create(table)

static int calls;
#pragma acc declare create(calls)

#pragma acc routine seq
static double counted(double x)
{
    calls++;
    return x + 1;
}

int main(void)
{
    struct part part = {N, calloc(N, sizeof(double)), calloc(N, sizeof(int))};
    double *a = malloc(N * sizeof *a), sum = 0;
    for (int i = 0; i < N; i++)
        a[i] = i / 7.0;
#pragma acc enter data copyin(part) create(part.values[0:N]) copyin(part.order[10:20])
#pragma acc data copy(a[0:N])
    {
        for (int round = 0; round < 4; round++) {
            int n = N - 37 * round;
#pragma acc parallel loop present(a[0:N]) async(1)
            for (int i = 0; i < n; i++)
                a[i] = counted(a[i]) + round;
#pragma acc parallel loop present(part) reduction(+:sum) async(1) wait(1)
            for (int i = 0; i < part.count; i++) {
                part.values[i] = i % 3 ? i * 0.1 : NAN;
                sum += part.values[i] > 10;
                if (i >= 10 && i < 30)
                    part.order[i] = i + round;
            }
        }
#pragma acc wait
    }
    CHECK_EQ(a[N - 1], (N - 1) / 7.0 + 1);
#pragma acc exit data copyout(part.values[0:N], part.order[10:20])
#pragma acc exit data delete(part)
    CHECK(isnan(part.values[0]));
    CHECK_EQ(part.order[12], 15);
    double *device = acc_malloc(N * sizeof *device);
#pragma acc parallel loop deviceptr(device)
    for (int i = 0; i < N; i++)
        device[i] = i;
#pragma acc parallel loop present(table)
    for (int i = 0; i < N; i++)
        table[i] = i / 3.0f;
    acc_update_self(table, sizeof table);
    CHECK_EQ(table[N - 1], (N - 1) / 3.0f);
#pragma acc parallel loop deviceptr(device) copyout(a[0:N])
    for (int i = 0; i < N; i++)
        a[i] = device[i] + table[i];
    CHECK_EQ(a[3], 4);
    acc_free(device);
    int s[3] = {1, 2, 3};
#pragma acc parallel copy(s)
    s[1] = s[0] + s[2];
    CHECK_EQ(s[1], 4);
    return pass();
}
